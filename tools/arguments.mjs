// Arguments of the commands in tools/: unknown ones are errors, and `--help` runs nothing.

/**
 * Parses arguments, or exits: with 0 for `--help`, with 2 for invalid ones.
 * `flags` have no value; `values` take one, from a list if the list is not empty. The rest are `names`.
 */
export function argumentsOf(usage, { flags = [], values = {} } = {}, args = process.argv.slice(2)) {
  const found = { names: [] };
  const wrong = (what) => {
    console.error(`${what}\n${usage}`);
    process.exit(2);
  };
  for (let at = 0; at < args.length; at++) {
    const word = args[at];
    if (word === '--help' || word === '-h') {
      console.log(usage);
      process.exit(0);
    }
    if (flags.includes(word)) found[word] = true;
    else if (Object.hasOwn(values, word)) {
      const value = args[++at];
      const choices = values[word];
      if (value === undefined) wrong(`${word} needs a value`);
      if (choices.length > 0 && !choices.includes(value)) wrong(`${word}: ${value} is not one of ${choices.join(', ')}`);
      found[word] = value;
    } else if (word.startsWith('-')) wrong(`${word} is not an option`);
    else found.names.push(word);
  }
  return found;
}
