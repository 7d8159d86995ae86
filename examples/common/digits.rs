//! Small images of digits, drawn from a font of 5 by 7 pixels: shifted, of random brightness, with noise.

use super::random::Random;

/// Width and height of an image.
pub(crate) const SIDE: usize = 12;
/// Number of pixels in an image, which are stored row by row with values from 0 (black) to 1.
pub(crate) const PIXELS: usize = SIDE * SIDE;

/// Seven rows of five bits for each digit.
const FONT: [[u8; 7]; 10] = [
    [0b01110, 0b10001, 0b10011, 0b10101, 0b11001, 0b10001, 0b01110],
    [0b00100, 0b01100, 0b00100, 0b00100, 0b00100, 0b00100, 0b01110],
    [0b01110, 0b10001, 0b00001, 0b00110, 0b01000, 0b10000, 0b11111],
    [0b11110, 0b00001, 0b00001, 0b01110, 0b00001, 0b00001, 0b11110],
    [0b00010, 0b00110, 0b01010, 0b10010, 0b11111, 0b00010, 0b00010],
    [0b11111, 0b10000, 0b11110, 0b00001, 0b00001, 0b10001, 0b01110],
    [0b00110, 0b01000, 0b10000, 0b11110, 0b10001, 0b10001, 0b01110],
    [0b11111, 0b00001, 0b00010, 0b00100, 0b01000, 0b01000, 0b01000],
    [0b01110, 0b10001, 0b10001, 0b01110, 0b10001, 0b10001, 0b01110],
    [0b01110, 0b10001, 0b10001, 0b01111, 0b00001, 0b00010, 0b01100],
];

/// Largest offsets of the font in an image: `FREE.0` to the right, `FREE.1` down.
pub(crate) const FREE: (usize, usize) = (SIDE - 5, SIDE - 7);

/// Draws a digit without noise, with its top left corner at a position.
pub(crate) fn draw(digit: usize, left: usize, top: usize) -> [f32; PIXELS] {
    let mut image = [0.0; PIXELS];
    for (y, row) in FONT[digit].iter().enumerate() {
        for x in (0..5).filter(|x| row >> (4 - x) & 1 == 1) {
            image[(top + y) * SIDE + left + x] = 1.0;
        }
    }
    image
}

/// Draws random digits at most `reach` pixels off the centre, with noise of the given standard deviation.
/// Returns the images and their digits.
pub(crate) fn images(seed: u64, count: usize, reach: usize, noise: f32) -> (Vec<f32>, Vec<i32>) {
    let mut random = Random::new(seed);
    let (mut pixels, mut digits) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let digit = random.below(10);
        let left = FREE.0 / 2 + random.below(2 * reach + 1) - reach;
        let top = FREE.1 / 2 + random.below(2 * reach + 1) - reach;
        let bright = 0.6 + 0.4 * random.uniform();
        let clean = draw(digit, left, top);
        pixels.extend(clean.map(|dot| (bright * dot + noise * random.normal()).clamp(0.0, 1.0)));
        digits.push(digit as i32);
    }
    (pixels, digits)
}

/// Renders images side by side as text.
pub(crate) fn show(images: &[f32]) -> String {
    let mut text = String::new();
    for y in 0..SIDE {
        for image in images.chunks(PIXELS) {
            let shade = |&p: &f32| [' ', '.', ':', 'o', '#'][(p * 4.99).clamp(0.0, 4.0) as usize];
            text.extend(image[y * SIDE..][..SIDE].iter().map(shade));
        }
        text.push('\n');
    }
    text
}
