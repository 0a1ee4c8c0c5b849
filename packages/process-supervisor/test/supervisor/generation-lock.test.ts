import { mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { takeLock } from '../../src/supervisor/generation-lock.ts';

it('takeLock does not take a lock whose holder cannot be read', () => {
  const directory = mkdtempSync(join(tmpdir(), 'generation-lock-'));
  try {
    mkdirSync(join(directory, 'lock.1'));
    expect(() => takeLock(directory)).toThrow('EISDIR');
    expect(readdirSync(directory)).toEqual(['lock.1']);
  } finally {
    rmSync(directory, { recursive: true });
  }
});
