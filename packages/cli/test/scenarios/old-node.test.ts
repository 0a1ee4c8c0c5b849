import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { runNode } from '../support/plugins-command.ts';

const root = fileURLToPath(new URL('../../../..', import.meta.url));
/** Lets a program find the version of an older Node. */
const asNode18 = 'data:text/javascript,Object.defineProperty(process,"versions",{value:{...process.versions,node:"18.20.8"}})';

it.each([
  ['packages/cli/bin/oarlock.js', 'oarlock needs Node 20.19 or newer; this is 18.20.8.'],
  ['packages/cli/create-oarlock-plugin/bin/create.js', 'oarlock needs Node 20.19 or newer; this is 18.20.8.'],
  // the first step of `npm start` and `npm test`
  ['tools/setup.mjs', 'Node 18.20.8 is too old: Oarlock needs 20.19 or newer.'],
])('%s names the Node that it needs and what to do', async (program, problem) => {
  const { code, stdout, stderr } = await runNode(['--import', asNode18, `${root}/${program}`]);
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
  expect(stderr).toContain(problem);
  expect(stderr).toContain('Install a current Node LTS');
});
