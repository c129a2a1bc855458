//! Text told in words, if a trial says that it pays.
//!
//! Above: `data`, `pool`. Below: the words of esker-stone. Invariant: a form has been proven to be read as the bytes
//! that it was made of.

use std::sync::Arc;

use esker_stone::{Form, Vocabulary, Words};

use super::category::{Category, TRIAL};

/// What does not save one part in so many does not pay for being told.
const GAIN: usize = 50;
/// Bytes that are tried, at most in about, and of each of the parts that they are in: shorter ones have lost what comes
/// again in them.
const SAMPLE_LEN: usize = 2 << 20;
const PART_LEN: usize = 256 << 10;

/// How the bytes of a block are told.
#[derive(Clone, Default)]
pub(super) enum Telling {
    /// As they are.
    #[default]
    Plain,
    /// In words of their own, if that pays.
    Own,
    /// In words of their own: this is their form.
    Form(Arc<Form>),
    /// In the words of their base.
    By(Arc<Known>),
}

/// The words of a base, to tell others in and to read them.
pub(super) struct Known {
    vocabulary: Vocabulary,
    words: Words,
}

impl Telling {
    /// The form of some bytes; `None`: they are told as they are.
    pub fn form(&self, plain: &[u8]) -> Option<Form> {
        match self {
            Self::Plain => None,
            Self::Own => told(plain).map(|(_, form)| form),
            Self::Form(form) => Some(Form::clone(form)),
            Self::By(known) => {
                let form = known.vocabulary.text(plain);
                let mut again = vec![0; plain.len()];
                let read = known.words.read_other(&form.bytes, &form.sections, &mut again);
                (read.is_ok() && again == plain).then_some(form)
            }
        }
    }
}

/// What others refer to of bytes that they share, how these are told themselves, and how the others are.
pub(super) fn base(plain: &[u8], category: Category) -> (Vec<u8>, Telling, Telling) {
    match category.is_told().then(|| told(plain)).flatten() {
        None => (plain.to_vec(), Telling::Plain, Telling::Plain),
        Some((known, form)) => {
            (form.bytes.clone(), Telling::Form(form.into()), Telling::By(known.into()))
        }
    }
}

/// Bytes in words of their own, and these; `None`: that does not pay.
fn told(plain: &[u8]) -> Option<(Known, Form)> {
    let vocabulary = Vocabulary::of(plain);
    if !pays(&vocabulary, plain)? {
        return None;
    }
    let form = vocabulary.form(plain);
    let words = Words::parse(form.bytes.clone()).ok()?;
    let mut again = vec![0; plain.len()];
    let read = words.read(&form.sections, &mut again);
    (read.is_ok() && again == plain).then_some((Known { vocabulary, words }, form))
}

/// Whether bytes in these words are less, by a trial of parts that are spread over all of them.
fn pays(vocabulary: &Vocabulary, plain: &[u8]) -> Option<bool> {
    let tried = |bytes: &[u8]| Some(TRIAL.encode(bytes, &[]).ok()?.1.len());
    let step = plain.len().div_ceil(SAMPLE_LEN).max(1);
    let sample: Vec<u8> = plain.chunks(PART_LEN).step_by(step).flatten().copied().collect();
    let (usual, own) = (tried(&sample)?, tried(&vocabulary.text(&sample).bytes)?);
    // The words themselves are there once for all of it.
    let share = |len: usize| len as u64 * sample.len() as u64 / plain.len().max(1) as u64;
    let words = share(tried(&vocabulary.form(&[]).bytes)?) as usize;
    Some(own + words + usual / GAIN < usual)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(count: u32) -> Vec<u8> {
        let line = |at: u32| format!("\tdevice_register(driver, {});\n", at.wrapping_mul(at) >> 3);
        (0..count).flat_map(|at| line(at).into_bytes()).collect()
    }

    #[test]
    fn text_is_told_and_what_is_none_is_not() {
        let plain = text(3000);
        let (known, form) = told(&plain).unwrap();
        assert!(form.bytes.len() * 2 < plain.len());
        assert_eq!(Telling::Own.form(&plain), Some(form));
        assert_eq!(Telling::Plain.form(&plain), None);
        let by = Telling::By(known.into());
        let form = by.form(&plain[..1000]).unwrap();
        assert!(form.bytes.len() < 500);
        let mut state = 1u64;
        let chance = |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        };
        let noise: Vec<u8> = (0..50_000).map(chance).collect();
        assert!(told(&noise).is_none() && told(&[]).is_none() && told(b"short\n").is_none());
    }
}
