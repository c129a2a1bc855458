//! Byte formats, each declared once.
//!
//! [`layout!`](crate::layout!) turns a table of fields into the struct, its size, `encode`,
//! `decode` and the list of fields that a test compares with the prose. A hole, an overlap or a
//! wrong total does not compile.

/// A field's type: a number in little-endian order, or bytes.
pub trait Field: Sized + Copy {
    /// In bytes.
    const SIZE: usize;
    /// Into exactly [`Self::SIZE`] bytes.
    fn put(self, target: &mut [u8]);
    /// From exactly [`Self::SIZE`] bytes.
    fn take(source: &[u8]) -> Self;
}

macro_rules! number_field {
    ($($number:ty),*) => {$(
        impl Field for $number {
            const SIZE: usize = size_of::<$number>();
            #[inline]
            fn put(self, target: &mut [u8]) {
                target.copy_from_slice(&self.to_le_bytes());
            }
            #[inline]
            fn take(source: &[u8]) -> Self {
                let mut bytes = [0; size_of::<$number>()];
                bytes.copy_from_slice(source);
                <$number>::from_le_bytes(bytes)
            }
        }
    )*};
}
number_field!(u8, u16, u32, u64, i64);

impl<const N: usize> Field for [u8; N] {
    const SIZE: usize = N;
    #[inline]
    fn put(self, target: &mut [u8]) {
        target.copy_from_slice(&self);
    }
    #[inline]
    fn take(source: &[u8]) -> Self {
        let mut bytes = [0; N];
        bytes.copy_from_slice(source);
        bytes
    }
}

/// Declares a struct of bytes: `offset => name: type`, packed, little-endian, with its total size.
#[macro_export]
macro_rules! layout {
    ($(#[$meta:meta])* pub struct $name:ident: $size:literal {
        $($(#[$field_meta:meta])* $offset:literal => $field:ident: $type:ty),+ $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name {
            $($(#[$field_meta])* pub $field: $type),+
        }

        impl $name {
            /// In bytes.
            pub const SIZE: usize = $size;
            /// Offset, name and size in bytes of each field, in order.
            pub const FIELDS: &'static [(usize, &'static str, usize)] =
                &[$(($offset, stringify!($field), <$type as $crate::layout::Field>::SIZE)),+];

            /// Into [`Self::SIZE`] bytes.
            #[inline]
            #[must_use]
            pub fn encode(&self) -> [u8; $size] {
                let mut bytes = [0; $size];
                $($crate::layout::Field::put(
                    self.$field,
                    &mut bytes[$offset..$offset + <$type as $crate::layout::Field>::SIZE],
                );)+
                bytes
            }

            /// The same, to where they are to be.
            #[allow(dead_code, reason = "not every format is written in place")]
            #[inline]
            pub fn encode_into(&self, bytes: &mut [u8; $size]) {
                $($crate::layout::Field::put(
                    self.$field,
                    &mut bytes[$offset..$offset + <$type as $crate::layout::Field>::SIZE],
                );)+
            }

            /// Becomes the same as another, field by field: what is copied as a whole costs more in WebAssembly.
            #[allow(dead_code, reason = "most are not kept")]
            #[inline]
            pub fn assign(&mut self, other: &Self) {
                $(self.$field = other.$field;)+
            }

            /// From the first [`Self::SIZE`] bytes, if there are that many.
            #[inline]
            #[must_use]
            pub fn decode(bytes: &[u8]) -> Option<Self> {
                let bytes = bytes.get(..$size)?;
                Some(Self {
                    $($field: $crate::layout::Field::take(
                        &bytes[$offset..$offset + <$type as $crate::layout::Field>::SIZE],
                    )),+
                })
            }
        }

        const _: () = {
            let fields = $name::FIELDS;
            let (mut at, mut index) = (0, 0);
            while index < fields.len() {
                assert!(fields[index].0 == at, "a hole or an overlap");
                at += fields[index].2;
                index += 1;
            }
            assert!(at == $size, "a wrong total");
        };
    };
}
