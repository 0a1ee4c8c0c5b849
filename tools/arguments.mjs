// What the commands in tools/ are given: nothing of it is passed over in silence, and `--help` runs nothing.

/**
 * Takes arguments apart, or ends the program: with 0 for `--help`, with 2 for what makes no sense.
 * `flags` stand alone, `values` are followed by a value, which is one of a list where there is one. The rest are `names`.
 */
export function argumentsOf(usage, { flags = [], values = {} } = {}, given = process.argv.slice(2)) {
  const found = { names: [] };
  const wrong = (what) => {
    console.error(`${what}\n${usage}`);
    process.exit(2);
  };
  for (let at = 0; at < given.length; at++) {
    const word = given[at];
    if (word === '--help' || word === '-h') {
      console.log(usage);
      process.exit(0);
    }
    if (flags.includes(word)) found[word] = true;
    else if (Object.hasOwn(values, word)) {
      const value = given[++at];
      const choices = values[word];
      if (value === undefined) wrong(`${word} needs a value`);
      if (choices.length > 0 && !choices.includes(value)) wrong(`${word}: there is no ${value}; there are ${choices.join(', ')}`);
      found[word] = value;
    } else if (word.startsWith('-')) wrong(`there is no option ${word}`);
    else found.names.push(word);
  }
  return found;
}
