//! The ordered map.
