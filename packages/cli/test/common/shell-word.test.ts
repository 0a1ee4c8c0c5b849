import { execFileSync } from 'node:child_process';
import { expect, it } from 'vitest';
import { shellWord } from '../../src/common/shell-word.ts';

it('keeps plain words', () => {
  expect(shellWord('/home/a_b/.oarlock-1/admin.kubeconfig')).toBe('/home/a_b/.oarlock-1/admin.kubeconfig');
});

it.each(['/a b/c', '/ü/ß', "/it's", '$HOME', 'a;b', '`id`', '', '*', '~'])('quotes %j so that a shell reads the same word', (word) => {
  expect(execFileSync('sh', ['-c', `printf %s ${shellWord(word)}`], { encoding: 'utf8' })).toBe(word);
});
