//! 32-bit numbers that wrap around, on a line of 64 bits: `unwrapped` of `analysis/intervals.py`, number by number.

/// Distance that no number has from its neighbours: `IMPLAUSIBLE` there.
const IMPLAUSIBLE: i64 = 1 << 30;

/// Return the signed distance of two numbers (RFC 9293, section 3.4).
#[inline(always)]
pub fn distance(from: u32, to: u32) -> i64 {
    i64::from(to.wrapping_sub(from) as i32)
}

/// A number, and where it lies.
#[derive(Clone, Copy, Default)]
pub struct Point {
    pub number: u32,
    pub at: i64,
}

impl Point {
    #[inline(always)]
    pub fn place(&self, number: u32) -> i64 {
        self.at + distance(self.number, number)
    }
}

/// The numbers so far.
#[derive(Default)]
pub struct Line {
    pub last: Point,
    /// The last one before `last` that is not stray; known if `is_far`.
    kept: Point,
    /// Whether `last` is far from the one before it: if the next one is far too, it is stray.
    is_far: bool,
    is_begun: bool,
}

impl Line {
    /// Return where the next number lies; the first one lies at 0.
    #[inline(always)]
    pub fn place(&mut self, number: u32) -> i64 {
        let step = distance(self.last.number, number);
        if !self.is_begun || self.is_far || step.abs() >= IMPLAUSIBLE {
            return self.place_rare(number);
        }
        self.last = Point { number, at: self.last.at + step };
        self.last.at
    }

    #[inline(never)]
    fn place_rare(&mut self, number: u32) -> i64 {
        let step = distance(self.last.number, number).abs();
        let is_far = self.is_begun && step >= IMPLAUSIBLE;
        if !(self.is_far && is_far) {
            self.kept = self.last;
        }
        let at = if self.is_begun { self.kept.place(number) } else { 0 };
        self.last = Point { number, at };
        (self.is_far, self.is_begun) = (is_far, true);
        at
    }

    pub fn shift(&mut self, by: i64) {
        self.last.at += by;
        self.kept.at += by;
    }
}
