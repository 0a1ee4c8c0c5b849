import { chmod, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
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

/** What the root user of a container tries, by name. A command that succeeds has reached the node, other pods or the kernel. */
const attacks: Readonly<Record<string, string>> = {
  'mount a file system': 'mount -t tmpfs tmpfs /tmp',
  'make settings of the kernel writable': 'mount -o remount,rw /proc/sys',
  'set the program of core dumps': 'echo "|/attack" > /proc/sys/kernel/core_pattern',
  'trigger a function of the kernel': 'echo h > /proc/sysrq-trigger',
  'read the memory of the kernel': '[ "$(head -c 1 /proc/kcore | wc -c)" = 1 ]',
  'read the keys of the kernel': '[ -n "$(cat /proc/keys)" ]',
  'open a disk': 'mknod /disk b 254 0 && head -c 1 /disk',
  'set a release agent of control groups':
    'for file in /sys/fs/cgroup/release_agent /sys/fs/cgroup/*/release_agent; do : > $file || exit 1; done',
  'change the control group': 'for file in /sys/fs/cgroup/cgroup.procs /sys/fs/cgroup/*/cgroup.procs; do echo $$ > $file || exit 1; done',
  'write to the programs that start containers': 'for file in /dev/.oarlock-*/tools/bin/mount; do : >> $file || exit 1; done',
  'add a program to them': 'for directory in /dev/.oarlock-*/tools; do touch $directory/bin/attack || exit 1; done',
  'replace the directory of them': 'for directory in /dev/.oarlock-*/tools; do mv $directory/bin $directory/attack || exit 1; done',
  'replace the directory above': 'for directory in /dev/.oarlock-*; do mv $directory /dev/attack || exit 1; done',
  'see files of the node': '[ -e "$DATA_DIRECTORY" ]',
  'see files of the node below the root of a process':
    'for root in /proc/[0-9]*/root; do [ -e "$root$DATA_DIRECTORY" ] && exit 0; done; exit 1',
  'read the environment of processes of the node': 'cat /proc/[0-9]*/environ | tr "\\0" "\\n" | grep "^VITEST"',
  'enter a namespace of the node': 'nsenter -t 1 -m -- test -e "$DATA_DIRECTORY"',
  'uncover a path in a user namespace of its own': 'unshare -Urm umount /proc/kcore',
  'mount processes in a user namespace of its own': 'unshare -Urmpf mount -t proc proc /tmp',
  'make settings of the kernel writable in a user namespace of its own': 'unshare -Urm mount -o remount,rw /proc/sys',
  'make the programs that start containers writable in a user namespace of its own':
    'unshare -Urm mount -o remount,bind,rw /dev/.oarlock-*/tools',
  'mount control groups in a user namespace of its own': 'unshare -Urm mount -t cgroup -o memory cgroup /tmp',
};

/** A device that a container may have of its own; then a change of it is none of the node's. */
const device = '/dev/full';
const script = `mkdir -p /tmp; chmod 0640 ${device}
${Object.entries(attacks)
  .map(([name, command]) => `(${command}) >/dev/null 2>&1 && echo 'done: ${name}'`)
  .join('\n')}
echo tried all
exec sleep 3600`;

const modes = [
  { name: 'root with runc', missing: missingForRunc(), open: () => openRuntime(runcMode()) },
  { name: 'root without', missing: missingForRoot(), open: () => openRuntime({ program: 'unshare', user: 'root' }) },
  {
    name: 'user with newuidmap',
    missing: missingForMappedUsers(),
    open: () => openRuntime({ ...runcMode(), mapped: true }, { mapped: true }),
  },
  { name: 'user without', missing: missingForUser(), open: () => openRuntime({ program: 'unshare', user: 'user' }) },
] as const;

describe.each(modes)('the root user of a container in the mode $name', ({ missing, open }) => {
  describe.skipIf(missing !== undefined)(`attacks${missing === undefined ? '' : ` (${missing})`}`, () => {
    let fixture: OciFixture;
    let log: string;
    let modeOfDevice: number;
    beforeAll(async () => {
      fixture = await open();
      modeOfDevice = (await stat(device)).mode;
      const { driver, dataDir, image } = fixture;
      const pod = podConfig(join(dataDir, 'logs'));
      const envs = [{ key: 'DATA_DIRECTORY', value: dataDir }];
      const sandbox = await driver.runPodSandbox(pod, '');
      const id = await driver.createContainer(sandbox, containerConfig(image, ['/bin/sh', '-c', script], { envs }), pod);
      await driver.startContainer(id);
      const { logPath } = await driver.containerStatus(id);
      log = await vi.waitFor(async () => {
        const text = await readFile(logPath, 'utf8');
        expect(text).toContain('tried all');
        return text;
      }, patience);
    });
    afterAll(() => fixture?.dispose());

    it('does not change the mode of a device of the node', async () => {
      const { mode } = await stat(device);
      await chmod(device, modeOfDevice & 0o7777);
      expect(mode).toBe(modeOfDevice);
    });
    it('does not bring programs or libraries in its image that run with the rights of those that start it', async () => {
      const { driver, dataDir, hostileImage, pull } = fixture;
      const image = await driver.pullImage(hostileImage, pull?.auth, undefined);
      const pod = podConfig(join(dataDir, 'logs'));
      const sandbox = await driver.runPodSandbox(pod, '');
      const id = await driver.createContainer(sandbox, containerConfig(image, ['/bin/sleep', '3600']), pod);
      await driver.startContainer(id);
      const { stdout, stderr } = await driver.execSync(id, ['/bin/ls', '/'], 30);
      expect(String(stdout).split('\n')).not.toContain('helper');
      // the loader names a library of the preload file that it cannot load
      expect(String(stderr)).toBe('');
    });
    it.each(Object.keys(attacks))('does not %s', (name) => {
      expect(log).not.toContain(`done: ${name}\n`);
    });
  });
});
