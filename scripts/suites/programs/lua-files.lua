-- What Lua's io and os libraries promise, on files in the current directory.
local function same(a, b, what)
  if a ~= b then error(what .. ": " .. tostring(a) .. " is not " .. tostring(b), 2) end
end

local function content(name)
  local file <close> = assert(io.open(name, "rb"))
  return file:read("a")
end

local function write(name, mode, text)
  local file <close> = assert(io.open(name, mode))
  assert(file:write(text))
end

-- The six modes.
write("a", "w", "one\n")
write("a", "a", "two\n")
same(content("a"), "one\ntwo\n", "append")
do
  local file <close> = assert(io.open("a", "r+"))
  same(file:read("l"), "one", "r+ reads")
  file:seek("set", 0)
  file:write("ONE")
  same(file:seek("end"), 8, "r+ keeps the length")
end
same(content("a"), "ONE\ntwo\n", "r+ overwrites")
do
  local file <close> = assert(io.open("a", "a+"))
  file:write("three\n")
  file:seek("set", 0)
  same(file:read("a"), "ONE\ntwo\nthree\n", "a+ reads what it appended")
end
do
  local file <close> = assert(io.open("a", "w+"))
  file:write("new")
  file:seek("set", 0)
  same(file:read("a"), "new", "w+ truncates")
end
same(io.open("missing/file", "w"), nil, "a file in a missing directory")
same(select(3, io.open("missing", "r")), 2, "ENOENT")

-- Buffering, holes, big and odd files.
for _, mode in ipairs { "no", "full", "line" } do
  local file <close> = assert(io.open("buffered", "w"))
  file:setvbuf(mode, 512)
  for i = 1, 5000 do file:write(i, "\n") end
  file:flush()
  same(#content("buffered"), 23893, "buffering " .. mode)
end
local sum = 0
for line in io.lines("buffered", "n") do sum = sum + line end
same(sum, 12502500, "numbers, line by line")
do
  local file <close> = assert(io.open("hole", "w+"))
  same(file:seek("set", 3 * 2 ^ 30 // 1 | 0), 3221225472, "seek over 2 GiB")
  file:write("end")
  same(file:seek("set", 3221225470), 3221225470, "seek back")
  same(file:read(9), "\0\0end", "a hole reads as zeros")
end
local block = string.rep("0123456789abcdef", 65536)
do
  local file <close> = assert(io.open("big", "wb"))
  for i = 1, 64 do file:write(block, string.pack("<I4", i)) end
end
do
  local file <close> = assert(io.open("big", "rb"))
  for i = 1, 64 do
    same(file:read(#block), block, "block " .. i)
    same(string.unpack("<I4", file:read(4)), i, "mark " .. i)
  end
  same(file:read(1), nil, "end of the file")
end
local odd = "\1\n\xff '\"* " .. string.rep("x", 240)
write(odd, "w", odd)
same(content(odd), odd, "a name of odd bytes")

-- rename, remove, tmpfile, tmpname, popen, programs.
assert(os.rename("big", "large"))
same(io.open("big"), nil, "the old name")
write("target", "w", "old")
assert(os.rename("a", "target"))
same(content("target"), "new", "rename replaces")
local file = assert(io.open("large", "rb"))
assert(os.remove("large"))
same(file:read(16), "0123456789abcdef", "a removed file stays readable")
file:close()
same(os.remove("large"), nil, "removed once")
local temporary = assert(io.tmpfile())
temporary:write("kept nowhere")
temporary:seek("set", 5)
same(temporary:read("a"), "nowhere", "tmpfile")
temporary:close()
write("module.lua", "w", "return { answer = 42 }")
package.path = "./?.lua"
same(require("module").answer, 42, "require")
write("compiled", "wb", string.dump(function(x) return x * 2 end))
same(loadfile("compiled", "b")(21), 42, "a compiled chunk")
local pipe = assert(io.popen("cat > piped", "w"))
pipe:write("through a pipe")
assert(pipe:close())
same(content("piped"), "through a pipe", "popen")

-- Many files, made and removed again.
for i = 1, 3000 do write("f" .. i, "w", i) end
for i = 1, 3000 do same(content("f" .. i), tostring(i), "file " .. i) end
for i = 1, 3000 do assert(os.remove("f" .. i)) end
for _, name in ipairs { "target", "buffered", "hole", odd, "module.lua", "compiled", "piped" } do
  assert(os.remove(name))
end
local left = assert(io.popen("ls -A")):read("a")
same(left, "", "files left")
print("lua-files: ok")
