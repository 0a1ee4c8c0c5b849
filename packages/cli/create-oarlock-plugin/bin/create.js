#!/usr/bin/env node
// `npm create oarlock-plugin SLOT NAME` runs `oarlock plugins new SLOT NAME --dir ./SLOT-NAME`.
import { joined } from '@oarlock/cli/joined';

const [slot = '', name = '', ...rest] = process.argv.slice(2);
if (slot === '' || name === '' || slot.startsWith('-')) {
  console.error('usage: npm create oarlock-plugin SLOT NAME [-- --dir DIR]\nFor example: npm create oarlock-plugin admission owner-label');
  // lists the slots
  process.argv.splice(2, process.argv.length, 'plugins', 'new');
} else {
  const dir = rest.includes('--dir') ? [] : ['--dir', `./${slot}-${name}`];
  process.argv.splice(2, process.argv.length, 'plugins', 'new', slot, name, ...rest, ...dir);
}
const program = joined();
if (program === undefined) throw new Error('the bundled command is missing: run npm run build');
await program.main();
