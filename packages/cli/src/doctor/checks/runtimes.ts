import { ok, type Check, type Finding } from './check.ts';

/** Controllers of version 2 beside those of version 1. */
const hybridControllers = '/sys/fs/cgroup/unified/cgroup.controllers';

/** runc or crun, with which runtime-oci runs containers as root. */
export const ociRuntime: Check = {
  name: 'runc',
  linux: true,
  async run({ machine }) {
    const path = machine.findProgram('runc') ?? machine.findProgram('crun');
    const affects = 'runtime-oci runs containers with util-linux: without seccomp, restricted devices and user namespaces of pods.';
    if (path === undefined)
      return { level: 'warn', found: 'neither runc nor crun is installed', affects, remedy: 'Install the package runc or crun.' };
    const { code, stdout, problem } = await machine.run(path, ['--version']);
    if (code === 0 && path.endsWith('crun') && !(await machine.run(path, ['run', '--help'])).stdout.includes('--keep'))
      return { level: 'warn', found: `${path} is too old: it lacks \`run --keep\``, affects, remedy: 'Install the package runc.' };
    if (code === 0 && path.endsWith('crun') && ((await machine.readText(hybridControllers)) ?? '').trim() !== '')
      return {
        level: 'warn',
        found: `${path} rejects control groups of both versions (${hybridControllers})`,
        affects,
        remedy: 'Install the package runc.',
      };
    if (code === 0) return ok(stdout.split('\n')[0] ?? path);
    return { level: 'warn', found: `${path} does not run: ${problem}`, affects, remedy: `Install ${path} again.` };
  },
};

interface Engine {
  readonly name: string;
  readonly socket: string;
  readonly compositions: string;
  readonly debianPackage: string;
}

const engineCheck = ({ name, socket, compositions, debianPackage }: Engine): Check => ({
  name,
  linux: true,
  async run({ machine }): Promise<Finding> {
    const error = await machine.connect(socket);
    if (error === undefined) return ok(`answers at ${socket}`);
    const affects = `Compositions ${compositions} do not run.`;
    if (error === 'ENOENT' || error === 'ENOTDIR')
      return {
        level: 'warn',
        found: `no socket at ${socket}`,
        affects,
        remedy: `Install the package ${debianPackage} and start ${name}.`,
      };
    if (error === 'EACCES')
      return { level: 'warn', found: `no permission to connect to ${socket}`, affects, remedy: 'Run Oarlock as root.' };
    return { level: 'warn', found: `${socket} does not answer: ${error}`, affects, remedy: `Start ${name}.` };
  },
});

export const containerd = engineCheck({
  name: 'containerd',
  socket: '/run/containerd/containerd.sock',
  compositions: 'containerd-bridge, etcd-containerd-bridge and etcd-containerd-calico',
  debianPackage: 'containerd',
});

export const docker = engineCheck({
  name: 'docker',
  socket: '/var/run/docker.sock',
  compositions: 'docker-bridge, docker-calico and etcd-docker-bridge',
  debianPackage: 'docker.io',
});
