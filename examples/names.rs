//! A network reads names letter by letter, and invents new ones.
//!
//! `cargo run --release --example names`
//!
//! Shows an embedding, a recurrent layer (GRU) over padded sequences, a loss that ignores padding, and
//! generation in which the state is passed from one run to the next. Expect a list of invented names, and at
//! most 2.3 nats per letter on held-out names (a uniform distribution over all 27 symbols has 3.3).

#[path = "common/random.rs"]
mod random;

use gradloom::prelude::*;
use random::Random;

const NAMES: &str = "
    ada adam adela adele agnes aida alan alba albert alena alice alina alma alvin amalia amelia amina
    amira anders andrea andrew angela anita anna annabel anton antonia arabella ariana arlo arman armin
    arthur astrid aurelia aurora axel barbara basil beata beatrice bella benedict benjamin bernard bertram
    bianca boris brenda bruno camilla carina carl carla carlo carmen carolina cecilia celia celine charles
    charlotte christian christina clara clarissa claudia clemens constantin cora cordelia corinna cornelia
    cyril dalia damian daniel daniela daria david deborah delia diana dominic dora dorian doris dorothea
    edgar edith edmund eduard edwin elena eleonora elias elin elisa elisabeth ella ellen elmar elsa elvira
    emanuel emil emilia emma enrico eric erika erin ernest esther eugen eva evelyn fabian fabio felicia
    felix ferdinand fiona flora florence florian franca frances francesca frank fred frederic frida
    gabriel gabriela georg georgia gerald gerda gertrude gilbert gina gloria gordon greta gustav hanna
    hannah harald harriet hector hedwig helen helena helga henri henriette henry herbert herman hilda
    hubert hugo ida igor ilona ina ines ingrid irene iris irma isaac isabel isabella isolde ivan ivana
    jacob jan jana jane janina jasmin jasper joan joel johan johanna john jonas jonathan josef josephine
    judith julia julian juliana julius karen karin karl katarina katrin kilian klara konrad lara larissa
    laura laurin lea leander lena leo leon leonard leonora leopold lia liam lidia lilian lina linda linus
    lisa livia lorenz lorena louis louisa lucas lucia lucian lucy ludwig luisa lydia magda magdalena
    manuel manuela marcel marco marcus margaret maria marian mariana marie marina mario marion marius
    marlene marta martha martin martina mathilda matteo maxim maximilian melanie melina melissa michael
    miranda mirella miriam mona monica moritz nadia nadine natalia natalie nathan nelly nicola nicolas
    nina nora norbert norman octavia olaf olga oliver olivia orlando oscar oswald otto pamela patricia
    paul paula paulina peter petra philip pia rafael ralf ramona raquel rebecca regina rene richard rita
    robert roberta robin roland roman romina rosa rosalie rosalind rosanna roxana ruben rudolf rupert ruth
    sabina sabrina salome samuel sandra sara sarah sebastian selina selma serena sibylle sigmund silas
    silvia simon simona sofia sonia stella stefan stefania susan susanna sylvester tamara tania tatiana
    teresa thea theo theodor theresa thomas tilda tim tina tobias tristan ulla ulrich ursula valentin
    valentina valeria vanessa vera verena veronica victor victoria vincent viola virginia vivian walter
    wanda wendel werner wilhelm wilma winfried xaver xenia yvonne zelda zita zoe
";

/// Maximum length of a name, including the end symbol.
const LENGTH: usize = 12;
/// Number of symbols: 26 letters and the end symbol, which also precedes every name.
const SIGNS: usize = 27;
const END: i32 = 26;
/// Target that the loss ignores.
const PADDING: i32 = -1;
const BATCH: usize = 32;
const HIDDEN: usize = 64;

#[derive(Module)]
struct Writer {
    letters: Embedding,
    memory: Gru,
    next: Linear,
}

impl Writer {
    fn new() -> Self {
        Self {
            letters: Embedding::new(SIGNS, 16),
            memory: Gru::new(16, HIDDEN),
            next: Linear::new(HIDDEN, SIGNS),
        }
    }

    /// Returns the mean loss of the symbols that are not padding, in nats.
    fn loss(&self, signs: Tensor, targets: Tensor) -> Tensor {
        let seen = self.memory.forward(self.letters.forward(signs));
        let logits = self.next.forward(seen.dropout(0.2));
        logits.cross_entropy_with(targets, CrossEntropyOptions::new().ignore_index(PADDING))
    }

    /// Returns the logits of the next symbol, and the state after this one.
    fn write(&self, sign: Tensor, state: Tensor) -> (Tensor, Tensor) {
        let (seen, state) = self.memory.run(self.letters.forward(sign), state);
        (self.next.forward(seen), state)
    }
}

/// Returns the inputs, `[names, LENGTH]`, and the targets.
fn encode(names: &[&str]) -> (Vec<i32>, Vec<i32>) {
    let (mut signs, mut targets) = (Vec::new(), Vec::new());
    for name in names {
        let letters: Vec<i32> = name.bytes().map(|byte| i32::from(byte - b'a')).collect();
        let padding = LENGTH - 1 - letters.len();
        signs.push(END);
        signs.extend(&letters);
        signs.extend(vec![END; padding]);
        targets.extend(&letters);
        targets.push(END);
        targets.extend(vec![PADDING; padding]);
    }
    (signs, targets)
}

pub(crate) struct Outcome {
    /// Loss on the held-out names, in nats per symbol.
    pub loss: f32,
    /// Invented names that are not in the list.
    pub invented: Vec<String>,
    /// Number of names generated to obtain these.
    pub written: usize,
}

pub(crate) fn train(device: &Device, epochs: usize) -> Result<Outcome> {
    let names: Vec<&str> = NAMES.split_whitespace().collect();
    // Every tenth name is held out.
    let part = |kept: bool| names.iter().enumerate().filter(move |(i, _)| (i % 10 == 9) == kept);
    let learnt: Vec<&str> = part(false).map(|(_, name)| *name).collect();
    let kept: Vec<&str> = part(true).map(|(_, name)| *name).collect();
    let (signs, targets) = encode(&learnt);

    let mut train = Trainer::new(Writer::new())
        .inputs([i32("signs", [BATCH, LENGTH]), i32("targets", [BATCH, LENGTH])])
        .loss(|writer, [signs, targets]| writer.loss(signs, targets))
        .optimizer(AdamW::new(5e-3))
        .clip_norm(1.0)
        .seed(1)
        .compile(device)?;
    let mut batches = Batches::new(learnt.len(), BATCH).shuffled(1).drop_last();
    for epoch in 0..epochs {
        let mut loss = 0.0;
        for batch in batches.epoch() {
            loss =
                train.step((&gather(&signs, LENGTH, &batch), &gather(&targets, LENGTH, &batch)))?.loss()?;
        }
        if epoch % (epochs / 10).max(1) == 0 {
            println!("epoch {epoch:>3}  loss {loss:.3} nats a letter");
        }
    }

    let (signs, targets) = encode(&kept);
    let inputs = [i32("signs", [kept.len(), LENGTH]), i32("targets", [kept.len(), LENGTH])];
    let loss = train.infer(inputs, |writer, [s, t]| writer.loss(s, t))?.run([&signs, &targets])?[0];

    let mut write = train
        .infer([i32("sign", [1, 1]), f32("state", [1, HIDDEN])], |writer, [sign, state]| {
            writer.write(sign, state)
        })?;
    let mut random = Random::new(1);
    let (mut invented, mut written) = (Vec::new(), 0);
    while invented.len() < 20 && written < 200 {
        let (mut name, mut sign, mut state) = (String::new(), END, vec![0.0; HIDDEN]);
        while name.len() < LENGTH {
            let (logits, after) = write.run((&[sign], &state))?;
            (sign, state) = (random.choose(&logits) as i32, after);
            if sign == END {
                break;
            }
            name.push(char::from(b'a' + sign as u8));
        }
        written += 1;
        if !names.contains(&&*name) {
            invented.push(name);
        }
    }
    Ok(Outcome { loss, invented, written })
}

fn main() -> Result<()> {
    let outcome = train(&Device::auto()?, 20)?;
    println!("{}", outcome.invented.join(" "));
    println!("{} new ones of {} that were written", outcome.invented.len(), outcome.written);
    println!("{:.2} nats a letter on names that were kept back", outcome.loss);
    Ok(())
}
