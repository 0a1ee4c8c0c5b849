import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import type { Node } from '@oarlock/api/types/core-v1';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import type { Cluster } from '../harness/cluster.ts';
import { consoleOfAnyCluster } from './console/any-cluster.ts';
import { composition } from '../harness/composition.ts';
import { kubectlBinaries, newestKubectl, type KubectlBinary } from '../harness/kubectl.ts';
import { Machine } from '../harness/machine.ts';
import { Daemon, mustRun } from '../harness/programs.ts';
import { untilValue, within } from '../harness/until.ts';

const newest = newestKubectl();
const binaries = kubectlBinaries().length > 0 ? kubectlBinaries() : newest ? [newest] : [];
/** The environment that makes clients since 1.31, which stream over WebSockets, use SPDY as earlier ones do. */
const overSpdy = { KUBECTL_REMOTE_COMMAND_WEBSOCKETS: 'false', KUBECTL_PORT_FORWARD_WEBSOCKETS: 'false' };
interface Client {
  readonly name: string;
  readonly binary: KubectlBinary;
  readonly env: Readonly<Record<string, string>>;
}
const clients: readonly Client[] = [
  ...binaries.map((binary) => ({ name: binary.version, binary, env: {} })),
  ...binaries.slice(-1).map((binary) => ({ name: `${binary.version} over SPDY`, binary, env: overSpdy })),
];

/** A server that echoes its input after the input has ended. */
const echo = `require('node:net').createServer({ allowHalfOpen: true }, (socket) => {
  const chunks = [];
  socket.on('data', (chunk) => chunks.push(chunk)).on('end', () => socket.end(Buffer.concat(chunks))).on('error', () => undefined);
}).listen(8080, process.env.POD_IP)`;

describe('streams', () => {
  const machine = Machine.use();
  let cluster: Cluster;
  let dir: string;

  const pod = (name: string, command: readonly string[], more: object = {}) => ({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, labels: { app: 'streams' } },
    spec: { terminationGracePeriodSeconds: 1, restartPolicy: 'Never', containers: [{ name: 'main', image: 'host', command, ...more }] },
  });

  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'streams-'));
    cluster = await machine.cluster({ spec: composition({ storage: 'memory', runtime: 'process', network: 'host' }) });
    await cluster.kubectl.apply([
      pod('idle', ['sleep', '3600']),
      pod('echo', [process.execPath, '-e', echo], {
        env: [{ name: 'POD_IP', valueFrom: { fieldRef: { fieldPath: 'status.podIP' } } }],
        ports: [{ containerPort: 8080 }],
        readinessProbe: { tcpSocket: { port: 8080 }, periodSeconds: 1 },
      }),
    ]);
    await cluster.api.untilReady('default', 'streams', 2);
  });
  afterAll(() => rm(dir, { recursive: true, force: true }));

  consoleOfAnyCluster(machine, () => cluster);

  describe.each(clients)('with kubectl $name', ({ name, binary, env }) => {
    const kubectl = () => cluster.kubectl.with(binary);
    const k = (args: readonly string[], input?: string) => kubectl().try(args, { env, ...(input !== undefined && { input }) });
    const forward = async <T>(target: string, use: (port: number) => Promise<T>): Promise<T> => {
      const daemon = new Daemon(binary.file, ['port-forward', target, ':8080'], { env: { ...kubectl().env, ...env } });
      try {
        const [, port] = await daemon.line(/^Forwarding from 127\.0\.0\.1:(\d+)/);
        return await use(Number(port));
      } finally {
        await daemon.stop();
      }
    };

    it("exec: returns the command's stdout, stderr and exit code", async () => {
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

    it('exec: the end of stdin reaches the command, and later output is returned', async () => {
      expect(await k(['exec', '-i', 'idle', '--', 'sh', '-c', 'cat; echo after'], 'one\ntwo\n')).toMatchObject({
        code: 0,
        stdout: 'one\ntwo\nafter\n',
        stderr: '',
      });
    });

    it('exec: transfers large data completely in both directions', async () => {
      const text = `${'0123456789abcdef'.repeat(4096)}\n`.repeat(48); // 3 MiB
      const { code, stdout } = await k(['exec', '-i', 'idle', '--', 'cat'], text);
      expect({ code, length: stdout.length, same: stdout === text }).toEqual({ code: 0, length: text.length, same: true });
    });

    it('exec -it: the command has a terminal of the size of the client, and is notified of changes', async () => {
      const [ttyFile, script] = [join(dir, 'tty'), join(dir, 'in-terminal.sh')];
      const untilSize = (size: string, word: string) => `until [ "$(stty size)" = "${size}" ]; do sleep 0.1; done; echo ${word}`;
      const inPod = `tty; ${untilSize('24 80', 'as-ours')}; ${untilSize('40 80', 'higher')}; ${untilSize('40 100', 'wider')}; exit 5`;
      await writeFile(script, `stty rows 24 cols 80; tty > ${ttyFile}; exec ${binary.file} exec -it idle -- sh -c '${inPod}'\n`);
      const terminal = new Daemon('script', ['-qec', `sh ${script}`, '/dev/null'], { env: { ...kubectl().env, ...env, TERM: 'xterm' } });
      try {
        await terminal.line(/\/dev\/pts\/\d+/);
        await terminal.line(/as-ours/);
        const terminalFile = (await readFile(ttyFile, 'utf8')).trim();
        // one after the other: kubectl drops a change that follows another before it has sent that one
        await mustRun('stty', ['-F', terminalFile, 'rows', '40']);
        await terminal.line(/higher/);
        await mustRun('stty', ['-F', terminalFile, 'cols', '100']);
        await terminal.line(/wider/);
        await terminal.line(/exit code 5/);
      } finally {
        await terminal.stop('SIGKILL');
      }
    });

    it('attach: forwards stdin to the container and returns its output', async () => {
      const reader = `reader-${name.toLowerCase().replaceAll(/[^a-z0-9]+/g, '-')}`;
      await cluster.kubectl.run(['delete', 'pod', reader, '--ignore-not-found', '--wait=true']);
      await cluster.kubectl.apply(
        pod(reader, ['sh', '-c', 'while read line; do echo "heard $line"; done; echo bye'], { stdin: true, stdinOnce: true }),
      );
      await cluster.kubectl.run(['wait', '--for=condition=Ready', `pod/${reader}`, '--timeout=180s']);
      const child = spawn(binary.file, ['attach', '-i', reader], {
        env: { ...process.env, ...kubectl().env, ...env },
        stdio: ['pipe', 'pipe', 'pipe'],
      });
      try {
        let output = '';
        child.stdout.setEncoding('utf8').on('data', (text: string) => {
          output += text;
        });
        child.stdin.end('hello\n');
        const [code] = (await within('attach ends', once(child, 'close'))) as [number];
        expect({ code, said: output }).toEqual({ code: 0, said: 'heard hello\nbye\n' });
      } finally {
        child.kill('SIGKILL');
      }
      await cluster.kubectl.run(['wait', '--for=jsonpath={.status.phase}=Succeeded', `pod/${reader}`, '--timeout=180s']);
      expect(await cluster.kubectl.run(['logs', reader])).toBe('heard hello\nbye\n');
    });

    it('port-forward: carries many connections completely, and closes each direction separately', async () => {
      const responses = await forward('pod/echo', (port) =>
        Promise.all(
          Array.from({ length: 50 }, async (_, at) => {
            const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
            const sent = Buffer.alloc(100_000, `${at} `);
            socket.end(sent);
            return (await within('an answer', buffer(socket))).equals(sent);
          }),
        ),
      );
      expect(responses.filter(Boolean)).toHaveLength(50);
    });

    it('cp: preserves files in both directions', async () => {
      const [here, there, back] = [join(dir, 'sent'), '/tmp/in-pod', join(dir, 'came-back')];
      await writeFile(here, Buffer.alloc(1 << 20, 'copied '));
      for (const [from, to] of [
        [here, `idle:${there}`],
        [`idle:${there}`, back],
      ] as const) {
        const { code, stderr } = await k(['cp', from, to]);
        expect({ code, stderr: stderr.replace(/^tar: Removing leading .*\n/m, '') }).toEqual({ code: 0, stderr: '' });
      }
      expect((await readFile(back)).equals(await readFile(here))).toBe(true);
    });

    it('logs -f: returns lines as they are written, until the container exits', async () => {
      const talker = `talker-${name.toLowerCase().replaceAll(/[^a-z0-9]+/g, '-')}`;
      const go = '/tmp/go';
      await cluster.kubectl.run(['delete', 'pod', talker, '--ignore-not-found', '--wait=true']);
      await cluster.kubectl.apply(pod(talker, ['sh', '-c', `echo first; until [ -e ${go} ]; do sleep 0.1; done; echo last`]));
      await cluster.kubectl.run(['wait', '--for=condition=Ready', `pod/${talker}`, '--timeout=180s']);
      const logs = new Daemon(binary.file, ['logs', '-f', talker], { env: { ...kubectl().env, ...env } });
      try {
        await logs.line(/^first$/);
        // the container ends at once, which may kill the command before it exits
        await k(['exec', talker, '--', 'touch', go]);
        await logs.line(/^last$/);
        expect(await within('the logs end', logs.exit)).toBe(0);
      } finally {
        await logs.stop();
      }
    });
  });

  /** An exec session that runs `cat`. */
  const open = (): WebSocket => {
    const { server, tls } = cluster.api;
    const url = `${server.replace(/^http/, 'ws')}/api/v1/namespaces/default/pods/idle/exec?command=cat&stdin=true&stdout=true`;
    return new WebSocket(url, 'v5.channel.k8s.io', tls);
  };

  it('reach the kubelet in the same process without a network connection', async () => {
    const [node] = (await cluster.api.get<{ readonly items: readonly Node[] }>('/api/v1/nodes')).items;
    const port = node?.status?.daemonEndpoints?.kubeletEndpoint?.Port ?? 0;
    /** Counts both ends of new connections, on the machine or in the namespace that the cluster runs in. */
    const connections = async () => {
      const lines = (await readFile(`/proc/${cluster.pid}/net/tcp`, 'utf8')).trim().split('\n').slice(1);
      const ends = lines.map((line) => line.trim().split(/\s+/).slice(1, 4)).filter(([, , state]) => state === '01');
      return ends
        .flatMap(([local = '', remote = '']) => [local, remote])
        .filter((end) => Number.parseInt(end.split(':')[1] ?? '', 16) === port);
    };
    expect(port).toBeGreaterThan(0);
    const before = await connections();
    const session = open();
    session.once('open', () => session.send(Buffer.from('\0here\n')));
    await within(
      'the session echoes its input',
      new Promise<void>((resolve, reject) => {
        session.once('error', reject);
        session.on('message', (data: Buffer) => {
          if (data.toString('utf8', 1) === 'here\n') resolve();
        });
      }),
    );
    expect((await connections()).filter((end) => !before.includes(end))).toEqual([]);
    session.terminate();
  });

  describe('hundreds of concurrent sessions', () => {
    const many = 200;
    const descriptors = async () => (await readdir(`/proc/${cluster.pid}/fd`)).length;
    /** Returns the processes of the sessions, wherever the runtime started them. */
    const cats = async () => {
      const names = await Promise.all(
        (await readdir('/proc'))
          .filter((name) => /^\d+$/.test(name))
          .map((pid) => readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')),
      );
      return names.filter((name) => name === 'cat\0').length;
    };

    it('receive their own data, and leave no process or descriptor when they end or are aborted', async () => {
      const [before, catsBefore] = [await descriptors(), await cats()];
      const sockets = Array.from({ length: many }, open);
      const responses = await within(
        'every session echoes its input',
        Promise.all(
          sockets.map(
            (socket, at) =>
              new Promise<string>((resolve, reject) => {
                let text = '';
                socket.once('error', reject);
                socket.once('open', () => socket.send(Buffer.from(`\0session ${at}\n`)));
                socket.on('message', (data: Buffer) => {
                  if (data[0] === 1) text += data.subarray(1).toString('utf8');
                  if (text.endsWith('\n')) resolve(text);
                });
              }),
          ),
        ),
      );
      expect(responses).toEqual(sockets.map((_, at) => `session ${at}\n`));
      const ended = sockets.filter((_, at) => at % 2 === 0).map((socket) => once(socket, 'close'));
      for (const [at, socket] of sockets.entries()) {
        // close of stdin in v5 of the protocol, or an aborted client
        if (at % 2 === 0) socket.send(Buffer.from([255, 0]));
        else socket.terminate();
      }
      await within('all sessions end', Promise.all(ended));
      await untilValue('no command is left', cats, (left) => left <= catsBefore);
      // connections that are kept for later requests are not leaks
      await untilValue('the number of open descriptors is as before', descriptors, (now) => now <= before + 8);
    });
  });
});
