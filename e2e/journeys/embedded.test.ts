import { access, chown, constants, lstat, mkdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { readFile } from 'node:fs/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import type { Cluster } from '../harness/cluster.ts';
import { composition } from '../harness/composition.ts';
import { forbidUserNamespaces } from '../harness/forbidding-namespace.ts';
import { httpGet, untilAnswers } from '../harness/http.ts';
import { Kubectl, newestKubectl } from '../harness/kubectl.ts';
import { Machine } from '../harness/machine.ts';
import { oarlock, root } from '../harness/oarlock.ts';
import { ordinaryUser } from '../harness/ordinary-user.ts';
import { untilValue } from '../harness/until.ts';
import { Daemon, freePort, processesBelow, runProgram } from '../harness/programs.ts';

const isRoot = process.getuid?.() === 0;
/** As root, the cluster runs as another user; an ordinary user runs it as itself. */
const runAs = isRoot ? ordinaryUser : undefined;

async function readable(): Promise<boolean> {
  if (runAs === undefined)
    return access(oarlock.args.at(-1) ?? '', constants.R_OK).then(
      () => true,
      () => false,
    );
  return (await runProgram('test', ['-r', oarlock.args.at(-1) ?? ''], runAs)).code === 0;
}
const checkout = await readable();

describe.skipIf(!checkout)(
  `the embedded composition without root${checkout ? '' : ' (the checkout is not readable for other users)'}`,
  () => {
    const machine = Machine.use();
    let cluster: Cluster;
    beforeAll(async () => {
      cluster = await machine.cluster({
        spec: composition({ storage: 'embedded', runtime: 'process', network: 'host' }),
        ...(runAs && { runAs }),
      });
    });

    it('runs as an ordinary user, and writes files that only this user can read', async () => {
      expect((await readFile(`/proc/${cluster.pid}/status`, 'utf8')).match(/^Uid:\s+(\d+)/m)?.[1]).toBe(
        String(runAs?.uid ?? process.getuid?.()),
      );
      expect((await lstat(cluster.dataDir)).mode & 0o777).toBe(0o700);
      expect((await lstat(cluster.kubeconfig)).mode & 0o777).toBe(0o600);
    });

    it('runs the example: three pods that respond at the Service', async () => {
      const output = await cluster.kubectl.run(['apply', '-f', join(root, 'examples', 'hello')]);
      expect(output).toBe('deployment.apps/hello created\nservice/hello created\n');
      await cluster.kubectl.run(['wait', '--for=condition=Available', 'deployment/hello', '--timeout=180s']);
      const pods = await cluster.api.untilReady('default', 'hello', 3);
      expect(new Set(pods.map(({ status }) => status.podIP)).size).toBe(3);
      for (const { status } of pods) expect(status.podIP).toMatch(/^127\./);
      const address = await cluster.kubectl.run(['get', 'service', 'hello', '-o', 'jsonpath={.spec.clusterIP}']);
      await untilAnswers(
        `http://${address}:8080/`,
        pods.map(({ metadata }) => `hello from ${metadata.name}`),
      );
      await untilValue(
        'its log',
        () => cluster.kubectl.run(['logs', `pod/${pods[0]?.metadata.name}`]),
        (log) => log.includes('listens on 127.'),
      );
      expect(await cluster.kubectl.run(['exec', 'deployment/hello', '--', 'id', '-u'])).toBe(`${runAs?.uid ?? process.getuid?.()}\n`);
    });

    it('rejects real images, and names the runtimes that run them', async () => {
      await cluster.kubectl.run(['run', 'image', '--image=busybox:1.36', '--restart=Never']);
      const pods = await cluster.api.until('the pod is rejected', cluster.api.pods('default'), (items) =>
        items.some((item) => item.metadata.name === 'image' && JSON.stringify(item).includes('runtime-containerd')),
      );
      expect(JSON.stringify(pods.find(({ metadata }) => metadata.name === 'image'))).toMatch(/busybox:1\.36.*\\"host\\"/);
    });

    it('deletes its objects, and leaves no process running when it stops', async () => {
      await cluster.kubectl.run(['delete', '-f', join(root, 'examples', 'hello')]);
      await cluster.kubectl.run(['delete', 'pod', 'image']);
      await cluster.api.until('no pods', cluster.api.pods('default'), (pods) => pods.length === 0);
      await cluster.stop();
      await untilValue(
        'nothing runs',
        () => processesBelow(cluster.dataDir),
        (left) => left.length === 0,
      );
    });
  },
);

describe.skipIf(!checkout || !isRoot)(
  `the embedded composition where user namespaces are forbidden${isRoot ? '' : ' (needs root, which forbids them)'}`,
  () => {
    const machine = Machine.use();
    const reason = 'the kernel denies user namespaces to ordinary users';
    let cluster: Cluster;
    beforeAll(async () => {
      const { enter, release } = await forbidUserNamespaces(ordinaryUser);
      machine.undo('user namespace', release);
      const [file, ...args] = [...enter, oarlock.file, ...oarlock.args] as const;
      cluster = await machine.prepare({ args: ['-f', join(root, 'clusters', 'embedded.yaml')], program: { file, args } });
      await chown(cluster.dir, ordinaryUser.uid, ordinaryUser.gid);
      await cluster.up();
    });

    it('runs processes, and reports it at the start, in the status, and in conditions and events of the node', async () => {
      expect(await cluster.daemon.line(/^Images cannot be run, only the image "host" for processes: (.*)$/)).toMatchObject({
        1: expect.stringContaining(reason),
      });
      await cluster.kubectl.run(['run', 'process', '--image=host', '--command', '--', 'sleep', '3600']);
      await cluster.kubectl.run(['wait', '--for=condition=Ready', 'pod/process', '--timeout=180s']);
      const containerId = await cluster.kubectl.run(['get', 'pod', 'process', '-o', 'jsonpath={.status.containerStatuses[0].containerID}']);
      expect(containerId).toMatch(/^process:/);
      const condition = (type: string) =>
        cluster.kubectl.run([
          'get',
          'nodes',
          '-o',
          `jsonpath={.items[0].status.conditions[?(@.type=="${type}")].status}{.items[0].status.conditions[?(@.type=="${type}")].message}`,
        ]);
      expect(await condition('ImageSupport')).toContain(
        `Falseimages do not run, only the image "host" as processes of the node: runtime-oci: ${reason}`,
      );
      expect(await condition('PodIsolation')).toContain('Falsepods run without isolation: ');
      const events = await untilValue(
        'the events of the node',
        () =>
          cluster.kubectl.run([
            'get',
            'events',
            '-n',
            'default',
            '--field-selector=involvedObject.kind=Node',
            '-o',
            'jsonpath={.items[*].reason}',
          ]),
        (text) => text.includes('ImagesUnavailable') && text.includes('PodIsolationUnavailable'),
      );
      expect(events).toContain('ImagesUnavailable');
      const { stdout: status } = await cluster.oarlock('status');
      expect(status).toContain(`node node-a: images do not run, only the image "host" as processes of the node: runtime-oci: ${reason}`);
      expect(status).toContain('node node-a: pods run without isolation: ');
    });

    it('reports why the pod of an image waits, and what to allow', async () => {
      await cluster.kubectl.run(['run', 'image', '--image=busybox:1.36', '--restart=Never']);
      const message = await untilValue(
        'the reason of the waiting pod',
        () => cluster.kubectl.run(['get', 'pod', 'image', '-o', 'jsonpath={.status.containerStatuses[0].state.waiting.message}']),
        (text) => text.includes(reason),
      );
      expect(message).toContain('runtime-oci is not available on this machine');
      const { stdout } = await cluster.oarlock('doctor');
      expect(stdout).toContain('user namespaces are denied by user.max_user_namespaces=0');
      expect(stdout).toContain('sudo sysctl -w user.max_user_namespaces=15000');
    });
  },
);

describe('oarlock up without a file', () => {
  const machine = Machine.use();
  const selected =
    /^Composition (?:embedded: Pods run without a container daemon\. The composition containerd-bridge cannot run here: \S+: .+\.|containerd-bridge: Pods run on containerd\. .+)$/m;
  const up = async (dataDir: string) => {
    const roles = ['--roles', 'apiserver,controllers,scheduler'];
    return [...oarlock.args, 'up', '--data-dir', dataDir, '--port', String(await freePort()), ...roles];
  };

  it('reports which composition it selected, and why', async () => {
    const dataDir = machine.path('foreground');
    const daemon = new Daemon(oarlock.file, await up(dataDir), { cwd: dirname(dataDir) });
    try {
      await daemon.line(selected);
      await daemon.line(/^Oarlock is ready at /);
    } finally {
      expect(await daemon.stop()).toBe(0);
    }
  });

  it('reports it also with --detach', async () => {
    const dataDir = machine.path('detached');
    const { code, stdout } = await runProgram(oarlock.file, [...(await up(dataDir)), '--detach']);
    try {
      expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringMatching(selected) as string });
    } finally {
      await runProgram(oarlock.file, [...oarlock.args, 'down', '--data-dir', dataDir]);
    }
  });

  it('continues with --detach if the waiting command is killed', async () => {
    const dataDir = machine.path('waiting');
    const waiting = new Daemon(oarlock.file, [...(await up(dataDir)), '--detach'], { cwd: dirname(dataDir) });
    // the detached process prints this line through the waiting one, before it is ready
    await waiting.line(selected);
    await waiting.stop('SIGKILL');
    const status = () => runProgram(oarlock.file, [...oarlock.args, 'status', '--data-dir', dataDir]);
    try {
      await untilValue('the detached process is ready', status, ({ code }) => code === 0);
      // the crash came after readiness, with the message to the waiting process
      const output = () => readFile(join(dataDir, 'oarlock.log.out'), 'utf8');
      await untilValue('the message of the detached process', output, (text) => text.includes('Oarlock is ready at '));
      expect((await status()).code).toBe(0);
    } finally {
      await runProgram(oarlock.file, [...oarlock.args, 'down', '--data-dir', dataDir]);
    }
  });
});

describe('two clusters of one host, without a port', () => {
  const machine = Machine.use();
  const names = ['a', 'b'] as const;
  const file = join(root, 'clusters', 'embedded.yaml');
  let dir: string;
  const run = async (...args: string[]) => {
    const { code, stdout, stderr } = await runProgram(oarlock.file, [...oarlock.args, ...args], { cwd: dir });
    if (code !== 0) throw new Error(`oarlock ${args.join(' ')} ended with ${code}:\n${stderr}${stdout}`);
    return stdout;
  };
  const up = async (name: string) => /ready at (\S+)/.exec(await run('up', '--name', name, '-f', file, '--detach'))?.[1];
  const kubectlOf = (name: string) => {
    const binary = newestKubectl();
    if (binary === undefined) throw new Error('there is no kubectl on the PATH');
    return new Kubectl(binary, join(dir, `.oarlock-${name}`, 'admin.kubeconfig'), join(dir, `home-${name}`));
  };
  const answers = async (name: string) => {
    const address = await kubectlOf(name).run(['get', 'service', 'hello', '-o', 'jsonpath={.spec.clusterIP}']);
    const url = `http://${address}:8080/`;
    await untilValue(
      `hello at ${url}`,
      () => httpGet(url),
      ({ body }) => body.startsWith('hello from hello-'),
    );
  };

  it('start at once, serve the example both, and do not affect each other when one stops and starts again', async () => {
    dir = machine.path('two');
    await mkdir(dir);
    try {
      const servers = await Promise.all(names.map(up));
      expect(new Set(servers).size).toBe(2);
      for (const name of names) await kubectlOf(name).run(['apply', '-f', join(root, 'examples', 'hello')]);
      for (const name of names) {
        await kubectlOf(name).run(['wait', '--for=condition=Available', 'deployment/hello', '--timeout=180s']);
        await answers(name);
        expect(await kubectlOf(name).run(['exec', 'deployment/hello', '--', 'printenv', 'POD_IP'])).toMatch(/^127\./);
      }
      await run('down', '--name', 'a');
      await answers('b');
      expect(await up('a')).toBe(servers[0]);
      await answers('a');
    } finally {
      for (const name of names) await run('down', '--name', name).catch(() => undefined); // a cluster that did not start has nothing to stop
    }
  });
});
