import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { beforeAll, describe, expect, it } from 'vitest';
import type { Cluster } from '../harness/cluster.ts';
import { composition } from '../harness/composition.ts';
import { kubectlBinaries } from '../harness/kubectl.ts';
import { Machine } from '../harness/machine.ts';
import { runProgram } from '../harness/programs.ts';
import { within } from '../harness/until.ts';

/** Clients since 1.31 stream over WebSockets unless told otherwise. */
const binaries = kubectlBinaries().filter(({ version }) => Number(version.split('.')[1]) >= 31);

describe.each(binaries)('streams with kubectl $version', (binary) => {
  const machine = Machine.use();
  let cluster: Cluster;
  const k = (args: readonly string[], input?: string) => cluster.kubectl.with(binary).try(args, { ...(input !== undefined && { input }) });

  beforeAll(async () => {
    cluster = await machine.cluster({ spec: composition({ storage: 'memory', runtime: 'process', network: 'host' }) });
    const pod = (name: string, command: readonly string[], more: object = {}) => ({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name, labels: { app: 'streams' } },
      spec: { terminationGracePeriodSeconds: 1, restartPolicy: 'Never', containers: [{ name: 'main', image: 'host', command, ...more }] },
    });
    await cluster.kubectl.apply([
      pod('idle', ['sleep', '3600']),
      pod('reader', ['sh', '-c', 'while read line; do echo "heard $line"; done; echo bye'], { stdin: true, stdinOnce: true }),
    ]);
    await cluster.api.untilReady('default', 'streams', 2);
  });

  it("exec: output, error output and exit code are the command's", async () => {
    expect(await k(['exec', 'idle', '--', 'sh', '-c', 'echo out; echo err >&2'])).toMatchObject({
      code: 0,
      stdout: 'out\n',
      stderr: 'err\n',
    });
    expect(await k(['exec', 'idle', '--', 'sh', '-c', 'exit 7'])).toMatchObject({
      code: 7,
      stdout: '',
      stderr: 'command terminated with exit code 7\n',
    });
    const absent = await k(['exec', 'idle', '--', '/no/such/program']);
    expect(absent.code).not.toBe(0);
    expect(absent.stderr).toMatch(/no such file|not found/);
    expect(await k(['exec', 'nobody', '--', 'true'])).toMatchObject({
      code: 1,
      stderr: 'Error from server (NotFound): pods "nobody" not found\n',
    });
    expect((await k(['exec', 'idle', '-c', 'other', '--', 'true'])).stderr).toMatch(
      /container other (is not valid for|not found in) pod idle/,
    );
  });

  it('exec: the end of stdin reaches the command, and what it says afterwards comes back', async () => {
    expect(await k(['exec', '-i', 'idle', '--', 'sh', '-c', 'cat; echo after'], 'one\ntwo\n')).toMatchObject({
      code: 0,
      stdout: 'one\ntwo\nafter\n',
      stderr: '',
    });
  });

  it('exec: a lot of data comes through whole, in both directions', async () => {
    const text = `${'0123456789abcdef'.repeat(4096)}\n`.repeat(48); // 3 MiB
    const { code, stdout } = await k(['exec', '-i', 'idle', '--', 'cat'], text);
    expect({ code, length: stdout.length, same: stdout === text }).toEqual({ code: 0, length: text.length, same: true });
  });

  it('exec -it: the command has a terminal', async () => {
    const { stdout } = await runProgram('script', ['-qec', `${binary.file} exec -it idle -- sh -c 'tty; stty size; exit 5'`, '/dev/null'], {
      env: { ...cluster.kubectl.with(binary).env, TERM: 'xterm' },
      input: '',
    });
    expect(stdout).toMatch(/\/dev\/pts\/\d+/);
    expect(stdout).toMatch(/exit code 5/);
  });

  it('attach: what is written is read by the container, what it says is seen', async () => {
    const child = spawn(binary.file, ['attach', '-i', 'reader'], {
      env: { ...process.env, ...cluster.kubectl.with(binary).env },
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    try {
      let said = '';
      child.stdout.setEncoding('utf8').on('data', (text: string) => {
        said += text;
      });
      child.stdin.end('hello\n');
      const [code] = (await within('attach ends', once(child, 'close'))) as [number];
      expect({ code, said }).toEqual({ code: 0, said: 'heard hello\nbye\n' });
    } finally {
      child.kill('SIGKILL');
    }
    await cluster.api.until('the reader has ended', cluster.api.pods('default'), (pods) =>
      pods.some((pod) => pod.metadata.name === 'reader' && (pod as unknown as { status: { phase: string } }).status.phase === 'Succeeded'),
    );
    expect(await cluster.kubectl.run(['logs', 'reader'])).toBe('heard hello\nbye\n');
  });
});
