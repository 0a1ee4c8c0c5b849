import { access, constants, lstat, mkdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { readFile } from 'node:fs/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import type { Cluster } from '../harness/cluster.ts';
import { composition } from '../harness/composition.ts';
import { httpGet, untilAnswers } from '../harness/http.ts';
import { Kubectl, newestKubectl } from '../harness/kubectl.ts';
import { Machine } from '../harness/machine.ts';
import { oarlock, root } from '../harness/oarlock.ts';
import { untilValue } from '../harness/until.ts';
import { Daemon, freePort, processesBelow, runProgram } from '../harness/programs.ts';

const ordinaryUser = { uid: 65534, gid: 65534 };
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
