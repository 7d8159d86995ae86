// First names, in alphabetical order, for a network to learn from.

export const NAMES = `
  ada adam adela adele agnes aida alan alba albert alena alice alina alma alvin amalia amelia amina amira
  anders andrea andrew angela anita anna annabel anton antonia arabella ariana arlo arman armin arthur astrid
  aurelia aurora axel barbara basil beata beatrice bella benedict benjamin bernard bertram bianca boris brenda
  bruno camilla carina carl carla carlo carmen carolina cecilia celia celine charles charlotte christian
  christina clara clarissa claudia clemens constantin cora cordelia corinna cornelia cyril dalia damian daniel
  daniela daria david deborah delia diana dominic dora dorian doris dorothea edgar edith edmund eduard edwin
  elena eleonora elias elin elisa elisabeth ella ellen elmar elsa elvira emanuel emil emilia emma enrico eric
  erika erin ernest esther eugen eva evelyn fabian fabio felicia felix ferdinand fiona flora florence florian
  franca frances francesca frank fred frederic frida gabriel gabriela georg georgia gerald gerda gertrude
  gilbert gina gloria gordon greta gustav hanna hannah harald harriet hector hedwig helen helena helga henri
  henriette henry herbert herman hilda hubert hugo ida igor ilona ina ines ingrid irene iris irma isaac isabel
  isabella isolde ivan ivana jacob jan jana jane janina jasmin jasper joan joel johan johanna john jonas
  jonathan josef josephine judith julia julian juliana julius karen karin karl katarina katrin kilian klara
  konrad lara larissa laura laurin lea leander lena leo leon leonard leonora leopold lia liam lidia lilian
  lina linda linus lisa livia lorenz lorena louis louisa lucas lucia lucian lucy ludwig luisa lydia magda
  magdalena manuel manuela marcel marco marcus margaret maria marian mariana marie marina mario marion marius
  marlene marta martha martin martina mathilda matteo maxim maximilian melanie melina melissa michael miranda
  mirella miriam mona monica moritz nadia nadine natalia natalie nathan nelly nicola nicolas nina nora norbert
  norman octavia olaf olga oliver olivia orlando oscar oswald otto pamela patricia paul paula paulina peter
  petra philip pia rafael ralf ramona raquel rebecca regina rene richard rita robert roberta robin roland
  roman romina rosa rosalie rosalind rosanna roxana ruben rudolf rupert ruth sabina sabrina salome samuel
  sandra sara sarah sebastian selina selma serena sibylle sigmund silas silvia simon simona sofia sonia stella
  stefan stefania susan susanna sylvester tamara tania tatiana teresa thea theo theodor theresa thomas tilda
  tim tina tobias tristan ulla ulrich ursula valentin valentina valeria vanessa vera verena veronica victor
  victoria vincent viola virginia vivian walter wanda wendel werner wilhelm wilma winfried xaver xenia yvonne
  zelda zita zoe
`.trim().split(/\s+/);
