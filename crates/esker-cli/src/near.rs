//! Which known word was meant: the one that takes the fewest slips of the finger.

/// The known word nearest to `word`, if it is near enough to be meant. A `=` at the end does not
/// count.
pub fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let letters: Vec<char> = word.chars().take(64).collect();
    let rated = known.iter().map(|&candidate| {
        let other: Vec<char> = candidate.trim_end_matches('=').chars().collect();
        (slips(&letters, &other), candidate)
    });
    let (count, candidate) = rated.min_by_key(|&(count, _)| count)?;
    (count <= 1 + letters.len() / 4).then_some(candidate).filter(|_| count < letters.len())
}

/// Letters to insert, remove, change or swap with their neighbour to get from one word to the
/// other.
fn slips(from: &[char], to: &[char]) -> usize {
    let width = to.len() + 1;
    let mut table: Vec<usize> = vec![0; (from.len() + 1) * width];
    for row in 0..=from.len() {
        for column in 0..width {
            let cell = |row: usize, column: usize| table[row * width + column];
            table[row * width + column] = if row == 0 || column == 0 {
                row + column
            } else {
                let same = from[row - 1] == to[column - 1];
                let mut least = (cell(row - 1, column) + 1)
                    .min(cell(row, column - 1) + 1)
                    .min(cell(row - 1, column - 1) + usize::from(!same));
                let swapped = row > 1
                    && column > 1
                    && from[row - 1] == to[column - 2]
                    && from[row - 2] == to[column - 1];
                if swapped {
                    least = least.min(cell(row - 2, column - 2) + 1);
                }
                least
            };
        }
    }
    table[from.len() * width + to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_counted() {
        let count = |from: &str, to: &str| {
            slips(&from.chars().collect::<Vec<_>>(), &to.chars().collect::<Vec<_>>())
        };
        assert_eq!(count("size", "size"), 0);
        assert_eq!(count("szie", "size"), 1);
        assert_eq!(count("", "size"), 4);
        assert_eq!(count("siz", "size"), 1);
        assert_eq!(count("sizes", "size"), 1);
    }

    #[test]
    fn only_what_is_near_counts() {
        let known = ["ro", "size=", "allow_other"];
        assert_eq!(nearest("siez", &known), Some("size="));
        assert_eq!(nearest("allowother", &known), Some("allow_other"));
        assert_eq!(nearest("zzzzzz", &known), None);
        assert_eq!(nearest("", &known), None);
        assert_eq!(nearest("x", &known), None);
    }
}
