import { expect, it } from 'vitest';
import { root } from '../harness/oarlock.ts';
import { runProgram } from '../harness/programs.ts';

const seed = 20_261_123;
/** One busy core. `npm run fuzz` takes minutes, with other seeds. */
const seconds = Number(process.env['OARLOCK_FUZZ_SECONDS'] ?? 10);

it(`parsers of foreign bytes accept or reject ${seconds} s of mutated inputs of the seed ${seed}`, async () => {
  const source = ['--expose-gc', '--conditions=@oarlock/source', '--import', import.meta.resolve('@oxc-node/core/register')];
  const { code, stdout, stderr } = await runProgram(
    process.execPath,
    [...source, 'e2e/fuzz/main.ts', '--seed', String(seed), '--seconds', String(seconds)],
    { cwd: root },
  );
  console.log(stdout);
  expect([code, code === 0 ? '' : `${stdout}\n${stderr}`]).toEqual([0, '']);
  // every target has run: a target without inputs would find nothing
  const counts = [...stdout.matchAll(/^✔ .*: (\d+) inputs/gm)].map(([, count]) => Number(count));
  expect(counts.length).toBeGreaterThanOrEqual(32);
  expect(Math.min(...counts)).toBeGreaterThan(20);
});
