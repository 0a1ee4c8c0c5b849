import { randomUUID } from 'node:crypto';
import { readFileSync, readdirSync, readlinkSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { ContainerStatus } from '@oarlock/spi/runtime';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import {
  missingForMappedUsers,
  missingForRoot,
  missingForRunc,
  missingForUser,
  openRuntime,
  runcMode,
  type OciFixture,
} from '../support/fixture.ts';
import { containerConfig, podConfig } from '../support/pod.ts';

const patience = { timeout: 120_000, interval: 50 };

/** Returns the processes of this machine whose command line has the text. */
function processesWith(text: string): readonly number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, 'latin1').includes(text);
      } catch {
        return false; // it has ended
      }
    })
    .map(Number);
}
const isInContainer = (pid: number) => {
  try {
    return readlinkSync(`/proc/${pid}/ns/pid`) !== readlinkSync('/proc/self/ns/pid');
  } catch {
    return false; // it has ended
  }
};
const killAll = (pids: readonly number[]) => {
  for (const pid of pids) process.kill(pid, 'SIGKILL');
};

const modes = [
  { name: 'root with runc', missing: missingForRunc(), mode: runcMode(), mapped: false },
  { name: 'root without', missing: missingForRoot(), mode: { program: 'unshare', user: 'root' }, mapped: false },
  { name: 'user with newuidmap', missing: missingForMappedUsers(), mode: { ...runcMode(), mapped: true }, mapped: true },
  { name: 'user without', missing: missingForUser(), mode: { program: 'unshare', user: 'user' }, mapped: false },
] as const;

describe.each(modes)('containers in the mode $name', ({ missing, mode, mapped }) => {
  let fixture: OciFixture;
  beforeEach(async ({ skip }) => {
    skip(missing !== undefined, missing);
    fixture = await openRuntime(mode, { mapped });
  });
  afterEach(() => fixture?.dispose());

  async function start(program: string): Promise<{ readonly id: string; readonly log: string }> {
    const { driver, dataDir, image } = fixture;
    const pod = podConfig(join(dataDir, 'logs'));
    const sandbox = await driver.runPodSandbox(pod, '');
    const id = await driver.createContainer(sandbox, containerConfig(image, ['/bin/sh', '-c', program]), pod);
    await driver.startContainer(id);
    return { id, log: (await driver.containerStatus(id)).logPath };
  }
  /** Kills the supervisor and whatever else `meanwhile` kills, after which the driver, or the fixture for an ordinary user, starts the next one. */
  async function killSupervisor(meanwhile: () => void = () => {}): Promise<void> {
    const { startSupervisor, driver, restartClient } = fixture;
    if (startSupervisor) await driver.stop(); // otherwise it would start a supervisor as root
    const pid = fixture.supervisor();
    process.kill(pid, 'SIGKILL');
    meanwhile();
    if (!startSupervisor) return;
    await startSupervisor();
    fixture = { ...fixture, driver: await restartClient() };
  }
  async function ended(id: string): Promise<ContainerStatus> {
    return vi.waitFor(async () => {
      const status = await fixture.driver.containerStatus(id);
      expect(status.state).toBe('EXITED');
      return status;
    }, patience);
  }

  it('run on with their logs and exit code after the supervisor is killed', async () => {
    const { id, log } = await start('trap "echo stopped; exit 3" TERM; echo one; while :; do sleep 1 & wait $!; done');
    await vi.waitFor(async () => expect(await readFile(log, 'utf8')).toContain('one'), patience);
    const pid = fixture.supervisor();
    await killSupervisor();
    await vi.waitFor(async () => expect((await fixture.driver.containerStatus(id)).state).toBe('RUNNING'), patience);
    expect(fixture.supervisor()).not.toBe(pid);
    const { stdout } = await fixture.driver.execSync(id, ['/bin/echo', 'in'], 30);
    expect(String(stdout)).toBe('in\n');
    await fixture.driver.stopContainer(id, 60);
    expect(await ended(id)).toMatchObject({ exitCode: 3, reason: 'Error' });
    expect(await readFile(log, 'utf8')).toContain('stopped');
  });

  it('run on while the supervisor hangs, and the status waits for it', async ({ skip }) => {
    skip(mode.program !== 'runc' || mapped === true, 'the calls are the same in every mode');
    const { driver } = fixture;
    const { id } = await start('while :; do sleep 1; done');
    const aborted = new AbortController();
    process.kill(fixture.supervisor(), 'SIGSTOP');
    try {
      const status = driver.status({ signal: aborted.signal });
      aborted.abort(new Error('no answer'));
      await expect(status).rejects.toThrow('no answer');
    } finally {
      process.kill(fixture.supervisor(), 'SIGCONT');
    }
    expect((await driver.status()).map(({ status }) => status)).toEqual([true, true]);
    expect((await driver.containerStatus(id)).state).toBe('RUNNING');
  });

  it('run on after everything else is killed, and their end is reported without an exit code', async ({ skip }) => {
    skip(mode.program === 'unshare' && mode.user === 'root', 'an ordinary user has the same launcher with more namespaces');
    const { id } = await start('while :; do sleep 1; echo tick; done');
    await killSupervisor(() => killAll(processesWith(fixture.dataDir).filter((pid) => pid !== process.pid && !isInContainer(pid))));
    if (!fixture.startSupervisor) fixture = { ...fixture, driver: await fixture.restartClient() };
    expect((await fixture.driver.containerStatus(id)).state).toBe('RUNNING');
    await fixture.driver.stopContainer(id, 0);
    expect(await ended(id)).toMatchObject({ exitCode: 255, reason: 'Unknown' });
  });

  it('keep the exit code of an end that came while there was no supervisor', async () => {
    const token = randomUUID();
    const { id, log } = await start(`: ${token}; trap "exit 7" TERM; echo one; while :; do sleep 1 & wait $!; done`);
    await vi.waitFor(async () => expect(await readFile(log, 'utf8')).toContain('one'), patience);
    const [container = 0] = processesWith(token).filter(isInContainer);
    await killSupervisor(() => process.kill(container, 'SIGTERM'));
    expect(await ended(id)).toMatchObject({ exitCode: 7, reason: 'Error' });
  });
});
