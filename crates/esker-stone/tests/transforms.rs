//! Transforms of any bytes: what is made of them is as long, and they come out of it again, at every length and
//! wherever code begins in its block.

use esker_stone::Transform;
use proptest::prelude::*;

/// Bytes of which many begin a branch on one machine or another.
fn code() -> impl Strategy<Value = Vec<u8>> {
    let telling = prop::sample::select(vec![
        0xe8u8, 0xe9, 0x00, 0xff, 0xeb, 0xf0, 0xf8, 0x94, 0x97, 0x90, 0xb0, 0xef, 0x17, 0x97, 0x67,
    ]);
    let byte = prop_oneof![3 => telling, 1 => any::<u8>()];
    (prop::collection::vec(byte, 0..400), 0..Transform::CHUNK_LEN + 9).prop_map(
        |(bytes, before)| {
            let mut all = vec![0x90; before];
            all.extend(bytes);
            all
        },
    )
}

proptest! {
    #[test]
    fn any_code_comes_out_again(plain in code()) {
        for transform in Transform::ALL {
            let bytes = transform.apply(&plain);
            prop_assert_eq!(bytes.len(), plain.len());
            let mut again = bytes.clone();
            transform.undo(&mut again);
            prop_assert!(again == plain, "{:?}", transform);
            let mut proven = plain.clone();
            prop_assert!(transform.prove(&mut proven) && proven == bytes);
        }
    }

    #[test]
    fn undoing_is_of_any_bytes(mut bytes in code()) {
        for transform in Transform::ALL {
            let len = bytes.len();
            transform.undo(&mut bytes);
            prop_assert_eq!(bytes.len(), len);
        }
    }
}
