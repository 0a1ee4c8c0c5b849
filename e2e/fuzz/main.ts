// `npm run fuzz`: runs every parser that reads foreign bytes with mutated inputs. Prints the number of inputs; exits with 1 after a finding.
import 'reflect-metadata';
import { randomInt } from 'node:crypto';
import { parseArgs } from 'node:util';
import { cleanUp } from './certificate-targets.ts';
import { readCorpus, saveInput } from './corpus.ts';
import { fuzz } from './engine.ts';
import { targets } from './targets.ts';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    seed: { type: 'string' },
    seconds: { type: 'string', default: '300' },
    count: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
});
const count = values.count === undefined ? undefined : Number(values.count);
const seed = values.seed === undefined ? randomInt(2 ** 31) : Number(values.seed);
const chosen = positionals.length === 0 ? targets : targets.filter(({ name }) => positionals.some((part) => name.includes(part)));
if (values.help || chosen.length === 0 || !Number.isSafeInteger(seed) || Number.isNaN(count)) {
  console.error(`npm run fuzz [-- --seed N --seconds N --count N NAME ...]; names: ${targets.map(({ name }) => name).join(', ')}`);
  process.exit(values.help ? 0 : 2);
}
console.log(`seed ${seed}`);
const ms = (Number(values.seconds) * 1000) / chosen.length;
let [inputs, findings] = [0, 0];
for (const target of chosen) {
  const result = await fuzz(target, { seed, ms, count, corpus: readCorpus(target.name) });
  inputs += result.inputs;
  const counts = `${result.inputs} inputs, ${result.rejected} rejected, slowest ${result.slowestMs.toFixed(1)} ms, memory ${result.grownMiB >= 0 ? '+' : ''}${result.grownMiB.toFixed(1)} MiB`;
  console.log(`${result.failure === undefined ? '✔' : '✖'} ${result.name}: ${counts}`);
  if (result.failure === undefined) continue;
  findings += 1;
  // growth over all inputs has no input that caused it
  const saved = result.counterexample === undefined ? '' : `\n  saved in ${saveInput(target.name, result.counterexample)}`;
  console.log(`  ${result.failure}${saved}`);
}
cleanUp();
console.log(`${inputs} inputs, ${findings} findings`);
process.exit(findings === 0 ? 0 : 1);
