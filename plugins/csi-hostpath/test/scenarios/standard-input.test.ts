import { spawn, type ChildProcess, type StdioOptions } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { csiTable } from '@oarlock/csi/csi-messages';
import { UnixClient } from '@oarlock/grpc/unix-client';
import { loaderFlags, programPath } from '@oarlock/primitives/os/bundled-program';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

describe('csi-hostpath', () => {
  let directory: string;
  let child: ChildProcess | undefined;
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'csi-stdin-'));
  });
  afterEach(async () => {
    if (child?.exitCode === null && child.kill('SIGKILL')) await once(child, 'exit');
    await rm(directory, { recursive: true, force: true });
  });

  const start = async (stdin: 'pipe' | 'ignore') => {
    const main = programPath('@oarlock/csi-hostpath/main', import.meta.url);
    const socket = join(directory, 'csi.sock');
    const own = ['--endpoint', `unix://${socket}`, '--node-id', 'here', '--data-dir', join(directory, 'data')];
    const stdio: StdioOptions = [stdin, 'pipe', 'pipe'];
    const started = spawn(process.execPath, [...loaderFlags(main), main, ...own], { stdio });
    child = started;
    if (!started.stdout || !started.stderr) throw new Error('the outputs are not pipes');
    const errors = text(started.stderr);
    await once(createInterface({ input: started.stdout }), 'line');
    return { started, errors, socket };
  };

  it('stays when its standard input is /dev/null, and ends on SIGTERM', async () => {
    const { started, socket } = await start('ignore');
    const client = new UnixClient({ socket, table: csiTable, timeoutMs: 30_000 });
    expect(await client.call('csi.v1.Identity', 'Probe', {})).toEqual({ ready: { value: true } });
    client.close();
    expect(started.exitCode).toBeNull();
    started.kill('SIGTERM');
    expect(await once(started, 'exit')).toEqual([0, null]);
  });

  it('reports why it ends when the parent process has ended', async () => {
    const { started, errors } = await start('pipe');
    started.stdin?.end();
    expect(await once(started, 'exit')).toEqual([0, null]);
    expect(await errors).toContain('csi-hostpath: the parent process closed standard input, exiting');
  });
});
