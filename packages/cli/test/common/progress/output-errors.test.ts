import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { expect, it } from 'vitest';
import { loaderArguments, moduleUrl } from '../../support/plugins-command.ts';

// as the detached process of `oarlock up` on a full disk
it.skipIf(!existsSync('/dev/full'))('a process whose messages cannot be written continues', async () => {
  const program = `
    const { continueWithoutOutput } = await import(${JSON.stringify(moduleUrl('common/progress/output-errors'))});
    continueWithoutOutput();
    for (let at = 0; at < 3; at += 1) {
      for (const output of [process.stderr, process.stdout]) output.write('a message\\n');
      await new Promise((done) => setImmediate(done));
    }
    process.exitCode = 7;
  `;
  const full = await open('/dev/full', 'w');
  try {
    const child = spawn(process.execPath, [...loaderArguments, '--input-type=module', '-e', program], {
      stdio: ['ignore', full.fd, full.fd],
    });
    expect(await once(child, 'exit')).toEqual([7, null]);
  } finally {
    await full.close();
  }
});
