import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readyCompositions } from '@oarlock/cluster/composition/ready-compositions';
import { completionScript } from '../../src/completion/completion.ts';
import { program } from '../../src/main.ts';

/** Completes the last of the words, as bash splits them, in a directory. */
const completeWords = `
source "$1" && cd "$2" && shift 2
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_oarlock
printf '%s\\n' "\${COMPREPLY[@]}"
`;

describe('the script for bash', () => {
  let directory: string;
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'oarlock-completion-'));
    await writeFile(join(directory, 'oarlock.bash'), completionScript('bash', program()));
    await writeFile(join(directory, 'my cluster.yaml'), '');
  });
  afterAll(() => rm(directory, { recursive: true, force: true }));

  const completions: readonly (readonly [readonly string[], readonly string[]])[] = [
    [
      ['keys', ''],
      ['ca', 'front-proxy-ca', 'etcd-ca', 'encryption', 'rotate', 'status', 'help'],
    ],
    [
      ['keys', 'ca', ''],
      ['add', 'use', 'end'],
    ],
    [['keys', 'ca', 'add', ''], ['']],
    [['etcd', 'snapshot', 'restore', '--data-dir', 'etcd', '--node'], ['--node-name']],
    [['etcd', 'snapshot', 'sa'], ['save']],
    [['status', '--ou'], ['--output']],
    [
      ['status', '-o', ''],
      ['text', 'json', 'yaml'],
    ],
    [['status', '--output', '=', 'y'], ['yaml']],
    [
      ['status', '--output', '='],
      ['text', 'json', 'yaml'],
    ],
    [['status', '-o', 'json', '--out'], ['--output']],
    [['init', ''], readyCompositions()],
    [['up', '-f', 'my'], ['my cluster.yaml']],
    [['up', '-f', 'emb'], ['embedded']],
    [['up', '--port', ''], ['']],
    [['completion', 'z'], ['zsh']],
  ];
  it.each(completions)('completes %j', async (words, expected) => {
    const args = ['--norc', '-c', completeWords, 'bash', join(directory, 'oarlock.bash'), directory, 'oarlock', ...words];
    const { stdout, stderr } = await promisify(execFile)('bash', args);
    expect({ stderr, candidates: stdout.slice(0, -1).split('\n') }).toEqual({ stderr: '', candidates: expected });
  });
});
