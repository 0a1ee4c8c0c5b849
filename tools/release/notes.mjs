// `node tools/release/notes.mjs VERSION`: prints the changes of a version.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '../setup.mjs';
import { notesOf } from './changelog.mjs';

process.stdout.write(notesOf(readFileSync(join(root, 'CHANGELOG.md'), 'utf8'), process.argv[2] ?? ''));
