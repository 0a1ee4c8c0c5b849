import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemPath } from '@oarlock/process-supervisor/host/host-tools';
import { supervisorArguments } from '@oarlock/process-supervisor/client/supervisor-launch';
import { expect, it } from 'vitest';
import { supervisorProgram } from '../../src/process-runtime.ts';
import { isPrivileged, openRuntime, supervisorOptions } from '../support/fixture.ts';
import { startPod } from '../support/pod.ts';

const secret = 'the key of the certificate authority';
const descriptor = 40;

it.skipIf(!isPrivileged)('a container does not have a directory that was open in the program that started the cluster', async () => {
  const cluster = await mkdtemp(join(tmpdir(), 'descriptors-'));
  const dataDir = join(cluster, 'plugins', 'runtime-process');
  await mkdir(dataDir, { recursive: true });
  await writeFile(join(cluster, 'ca.key'), secret, { mode: 0o600 });
  const opened = openSync(cluster, 'r');
  const options = supervisorOptions(dataDir, { hiddenPaths: [cluster] });
  const supervisor = spawn(process.execPath, supervisorArguments(supervisorProgram(options)), {
    cwd: '/',
    env: { PATH: systemPath, HOME: '/nonexistent' },
    stdio: ['ignore', 'pipe', 'inherit', ...Array.from({ length: descriptor - 3 }, () => 'ignore' as const), opened],
  });
  closeSync(opened);
  if (supervisor.stdout === null) throw new Error('the supervisor has no output');
  await once(supervisor.stdout, 'data');
  const { driver, dispose } = await openRuntime({ cgroups: false, isolation: 'required', hiddenPaths: [cluster] }, undefined, dataDir);
  const { container } = await startPod(driver, dataDir, ['/bin/sleep', '1000']);
  const attack = `cat /proc/self/fd/${descriptor}/ca.key /proc/1/fd/${descriptor}/ca.key; ls /proc/self/fd`;
  const ofExec = await driver.execSync(container, ['/bin/sh', '-c', attack], 20);
  const ofCommand = await driver.execSync(
    container,
    ['/bin/sh', '-c', `for p in /proc/[0-9]*; do cat $p/fd/${descriptor}/ca.key; done 2>/dev/null; true`],
    20,
  );
  expect(`${ofExec.stdout}${ofCommand.stdout}`).not.toContain(secret);
  expect(`${ofExec.stdout}`.trim().split('\n').map(Number)).not.toContain(descriptor);
  await dispose();
  await rm(cluster, { recursive: true, force: true });
});
