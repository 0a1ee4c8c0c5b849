import { createPrivateKey, createPublicKey } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile, appendFile } from 'node:fs/promises';
import { request } from 'node:https';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { connect } from 'node:tls';
import type { ClusterKeys, KeyPair } from '@oarlock/spi/cluster';
import { signLeaf } from '@oarlock/cluster/pki/certificate-writer';
import { openKeys } from '@oarlock/cluster/pki/keys';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { WebSocket } from 'ws';
import { silentLogger } from '@oarlock/primitives/logger';
import { KubeletServer } from '../../src/server/kubelet-server.ts';
import { app, Bench, podOf, withTraits } from '../support/bench.ts';

describe('KubeletServer', () => {
  let bench: Bench;
  let server: KubeletServer;
  let port: number;
  let keys: ClusterKeys;
  let directory: string;
  let client: KeyPair;
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'oarlock-keys-'));
    ({ keys } = await openKeys(directory, 'https://kubernetes.default.svc'));
    client = await keys.issue({ commonName: 'kube-apiserver-kubelet-client', organizations: ['someone'], usages: ['client'] });
    bench = await new Bench({
      keys,
      clock: new FakeClock({ start: Date.now() }),
      wrap: (driver) => withTraits(driver, { simulated: false }),
      config: { files: true, address: '127.0.0.1', systemLogDir: join(directory, 'log') },
    }).start();
    server = new KubeletServer({
      kubelet: bench.kubelet,
      log: silentLogger,
      signal: bench.signal,
      listen: { host: '127.0.0.1', port: 0 },
      metrics: async () => 'up 1\n',
    });
    port = await server.start();
    bench.create(podOf('web', { containers: [app({ tty: false })] }));
    await vi.waitFor(() => expect(bench.pod('web')?.status?.phase).toBe('Running'), 120_000);
  });
  afterAll(async () => {
    await server.stop();
    await bench.dispose();
    await rm(directory, { recursive: true, force: true });
  });

  const get = (path: string, pair: KeyPair = client) =>
    new Promise<{ code: number; body: string }>((resolve, reject) => {
      const clientRequest = request(
        { host: '127.0.0.1', port, path, ca: keys.caBundle, agent: false, cert: pair.certificate, key: pair.key },
        (response) => {
          let body = '';
          response
            .setEncoding('utf8')
            .on('data', (chunk: string) => {
              body += chunk;
            })
            .on('end', () => resolve({ code: response.statusCode ?? 0, body }));
        },
      );
      clientRequest.on('error', reject).end();
    });

  it('measures requests by the root of their path', async () => {
    for (const path of ['/metrics/probes', '/pods?limit=1', '/healthz/ping', '/nowhere/at/all']) await get(path);
    const text = await bench.registry.metrics();
    const labels = (path: string) => `method="GET",path="${path}",server_type="readwrite",long_running="false"`;
    for (const path of ['metrics/probes', 'pods', 'healthz', 'other']) {
      expect(text).toMatch(new RegExp(`^kubelet_http_requests_total\\{${labels(path)}\\} [1-9]`, 'm'));
      expect(text).toContain(`kubelet_http_inflight_requests{${labels(path)}} 0\n`);
      expect(text).toMatch(new RegExp(`^kubelet_http_requests_duration_seconds_count\\{${labels(path)}\\} [1-9]`, 'm'));
    }
  });

  it.each([
    ['', 400],
    [' HTTP/2.0', 505],
  ])('rejects request lines with the version %j', async (version, code) => {
    const socket = connect({ host: '127.0.0.1', port, ca: keys.caBundle, cert: client.certificate, key: client.key });
    socket.end(`GET /pods${version}\r\n\r\n`);
    let answer = '';
    for await (const chunk of socket) answer += String(chunk);
    expect(answer).toMatch(new RegExp(`^HTTP/1.1 ${code} `));
  });

  it('rejects certificates of the front-proxy CA, whatever their names are', async () => {
    const [certificate, key] = await Promise.all(['crt', 'key'].map((end) => readFile(join(directory, `front-proxy-ca.${end}`), 'utf8')));
    const ca = { certificate: certificate ?? '', key: key ?? '' };
    const publicKey = createPublicKey(createPrivateKey(client.key)).export({ type: 'spki', format: 'der' });
    for (const name of ['kube-apiserver-kubelet-client', 'front-proxy-client']) {
      const pair = {
        certificate: signLeaf(ca, publicKey, { commonName: name, organizations: ['system:masters'], usages: ['client'] }),
        key: client.key,
      };
      expect((await get('/pods', pair)).code, name).toBe(401);
    }
    expect((await get('/pods', (await keys.frontProxy?.clientCertificate()) ?? client)).code).toBe(401);
  });

  it('serves only the API server and administrators, health included', async () => {
    const stranger = await keys.issue({ commonName: 'system:node:other', organizations: ['system:nodes'], usages: ['client'] });
    const master = await keys.issue({ commonName: 'root', organizations: ['other', 'system:masters'], usages: ['client'] });
    const server_ = await keys.issue({ commonName: 'kube-apiserver-kubelet-client', usages: ['server'] });
    const anonymous = (path: string) =>
      new Promise<number>((resolve, reject) => {
        request({ host: '127.0.0.1', port, path, ca: keys.caBundle, agent: false }, (response) => {
          response.resume();
          resolve(response.statusCode ?? 0);
        })
          .on('error', reject)
          .end();
      });
    for (const path of ['/healthz', '/healthz/ping', '/healthz/log', '/healthz/syncloop']) {
      expect(await anonymous(path), path).toBe(401);
      expect((await get(path)).body, path).toBe('ok');
    }
    expect(await anonymous('/pods')).toBe(401);
    expect((await get('/pods', stranger)).code).not.toBe(200); // the API in memory does not serve reviews
    expect((await get('/pods', server_)).code).toBe(401);
    expect((await get('/pods', master)).code).toBe(200);
    expect(JSON.parse((await get('/pods')).body)).toMatchObject({
      kind: 'PodList',
      items: [{ metadata: { name: 'web' }, status: { phase: 'Running' } }],
    });
    expect((await get('/metrics')).body).toBe('up 1\n');
    expect((await get('/nothing')).code).toBe(404);
    expect(JSON.parse((await get('/stats/summary')).body)).toMatchObject({
      node: { nodeName: 'node-a' },
      pods: [{ podRef: { name: 'web' }, containers: [{ name: 'app', cpu: { usageCoreNanoSeconds: expect.any(Number) } }] }],
    });
  });

  it.skipIf(!existsSync('/proc/pressure/cpu'))('serves the pressure of the machine', async () => {
    const psi = { some: { total: expect.any(Number), avg10: expect.any(Number) }, full: { avg300: expect.any(Number) } };
    const { node } = JSON.parse((await get('/stats/summary')).body) as {
      readonly node: Readonly<Record<string, { readonly time: string }>>;
    };
    expect(node).toMatchObject({ cpu: { psi }, memory: { psi }, io: { time: node['cpu']?.time, psi } });
    const cadvisor = (await get('/metrics/cadvisor')).body;
    for (const resource of ['cpu', 'memory', 'io'])
      for (const kind of ['stalled', 'waiting'])
        expect(cadvisor).toMatch(
          new RegExp(`^container_pressure_${resource}_${kind}_seconds_total\\{container="",id="/",.*\\} \\S+ \\d+$`, 'm'),
        );
  });

  it('serves usage, metrics and its configuration', async () => {
    const resource = (await get('/metrics/resource')).body;
    for (const line of [
      /^container_cpu_usage_seconds_total\{container="app",namespace="default",pod="web"\} \S+ \d+$/m,
      /^pod_memory_working_set_bytes\{namespace="default",pod="web"\} \d+ \d+$/m,
      /^node_memory_working_set_bytes \d+ \d+$/m,
      /^resource_scrape_error 0$/m,
    ])
      expect(resource).toMatch(line);
    const cadvisor = (await get('/metrics/cadvisor')).body;
    for (const line of [
      /^container_memory_working_set_bytes\{container="app",.*image=".*",name=".*"\} /m,
      /^container_cpu_usage_seconds_total\{container="app",.*,cpu="total"\} /m,
      /^container_cpu_usage_seconds_total\{container="",id="\/",.*,cpu="total"\} /m,
    ])
      expect(cadvisor).toMatch(line);
    expect((await get('/metrics/probes')).code).toBe(200);
    expect(JSON.parse((await get('/runningpods/')).body)).toMatchObject({ items: [{ metadata: { name: 'web' } }] });
    expect(JSON.parse((await get('/configz')).body)).toMatchObject({
      kubeletconfig: { kind: 'KubeletConfiguration', evictionHard: { 'memory.available': '100Mi' }, maxPods: 110 },
    });
    expect((await get('/healthz/syncloop')).body).toBe('ok');
  });

  it('serves the logs of the machine and nothing outside of their directory', async () => {
    await mkdir(join(directory, 'log', 'sub'), { recursive: true });
    await writeFile(join(directory, 'log', 'messages'), 'hello\n');
    await symlink('/etc/passwd', join(directory, 'log', 'leak'));
    expect((await get('/logs/')).body).toBe(
      '<pre>\n<a href="leak">leak</a>\n<a href="messages">messages</a>\n<a href="sub/">sub/</a>\n</pre>\n',
    );
    expect((await get('/logs/messages')).body).toBe('hello\n');
    expect((await get('/logs/leak')).code).toBe(403);
    expect((await get('/logs/..%2f')).code).toBe(403);
    expect((await get('/logs/none')).code).toBe(404);
  });

  it('serves container logs and follows them', async () => {
    const [container] = bench.kubelet.agents.get('node-a')?.pods.find('default', 'web')?.state.runningContainers ?? [];
    const path = container?.logPath ?? '';
    expect(await get('/containerLogs/default/web/app')).toEqual({
      code: 200,
      body: `failed to try resolving symlinks in path "${path}": lstat ${path}: no such file or directory`,
    });
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, '2026-01-01T00:00:00.000000001Z stdout F hello\n2026-01-01T00:00:00.000000002Z stdout F world\n');
    expect(await get('/containerLogs/default/web/app')).toEqual({ code: 200, body: 'hello\nworld\n' });
    expect((await get('/containerLogs/default/web/app?tailLines=1&timestamps=true')).body).toBe('2026-01-01T00:00:00.000000002Z world\n');
    expect(await get('/containerLogs/default/web/other')).toEqual({ code: 404, body: 'container "other" not found in pod "web"' });
    expect(await get('/containerLogs/default/none/app')).toEqual({ code: 404, body: 'pod "none" does not exist' });
    expect(await get('/containerLogs/default/web/app?previous=true')).toEqual({
      code: 400,
      body: 'previous terminated container "app" in pod "web" not found',
    });
    expect((await get('/containerLogs/default/web/app?tailLines=-1')).code).toBe(422);
    const followed = new Promise<string>((resolve, reject) => {
      const clientRequest = request(
        {
          host: '127.0.0.1',
          port,
          path: '/containerLogs/default/web/app?follow=true',
          ca: keys.caBundle,
          cert: client.certificate,
          key: client.key,
          agent: false,
        },
        (response) => {
          let body = '';
          response
            .setEncoding('utf8')
            .on('data', (chunk: string) => {
              body += chunk;
              if (body === 'hello\nworld\n') void appendFile(path, '2026-01-01T00:00:01.000000001Z stdout F more\n');
              if (body.endsWith('more\n')) {
                resolve(body);
                clientRequest.destroy();
              }
            })
            .on('error', () => undefined);
        },
      );
      clientRequest
        .on('error', (error) => {
          if (!clientRequest.destroyed) reject(error);
        })
        .end();
    });
    expect(await followed).toBe('hello\nworld\nmore\n');
  });

  const session = (path: string, protocol = 'v5.channel.k8s.io') => {
    const socket = new WebSocket(`wss://127.0.0.1:${port}${path}`, protocol, {
      ca: keys.caBundle,
      cert: client.certificate,
      key: client.key,
    });
    const streams: Record<number, string> = {};
    const opened = new Promise<void>((resolve, reject) => {
      socket.once('open', () => resolve());
      socket.once('error', reject);
    });
    socket.on('message', (data: Buffer) => {
      streams[data[0] ?? -1] = (streams[data[0] ?? -1] ?? '') + data.subarray(1).toString('utf8');
    });
    const closed = new Promise<Record<number, string>>((resolve) => {
      socket.once('close', () => resolve(streams));
    });
    return { socket, opened, closed, streams };
  };

  it('runs commands over WebSocket and sends the result', async () => {
    expect(await session('/exec/default/web/app?command=echo&command=a&command=b&output=1&error=1').closed).toEqual({
      1: 'a\nb\n',
      3: '{"metadata":{},"status":"Success"}',
    });
    const failed = await session('/exec/default/web/app?command=exit&command=42&output=1', 'v4.channel.k8s.io').closed;
    expect(JSON.parse(failed[3] ?? '')).toEqual({
      metadata: {},
      status: 'Failure',
      message: 'command terminated with non-zero exit code: exit status 42',
      reason: 'NonZeroExitCode',
      details: { causes: [{ reason: 'ExitCode', message: '42' }] },
    });
    expect((await session('/exec/default/web/app?command=complain&command=no&output=1&error=1').closed)[2]).toBe('no\n');
  });

  it('transfers large data in both directions, and supports the half-close of stdin', async () => {
    const { socket, opened, closed } = session('/exec/default/web/app?command=cat&input=1&output=1');
    await opened;
    const block = Buffer.alloc(32 * 1024 + 1, 'x');
    block[0] = 0;
    for (let count = 0; count < 200; count += 1) socket.send(block);
    socket.send(Buffer.from([255, 0]));
    const streams = await closed;
    expect(streams[1]).toBe('x'.repeat(200 * 32 * 1024));
    expect(streams[3]).toBe('{"metadata":{},"status":"Success"}');
  });

  it('sends nothing to a client that does not read yet', async () => {
    const socket = new WebSocket(`wss://127.0.0.1:${port}/exec/default/web/app?command=echo&command=a&output=1`, 'v5.channel.k8s.io', {
      ca: keys.caBundle,
      cert: client.certificate,
      key: client.key,
      autoPong: false,
    });
    const received: string[] = [];
    socket.on('message', (data: Buffer) => received.push(data.toString('latin1')));
    const closed = new Promise((resolve) => {
      socket.once('close', resolve);
    });
    await new Promise((resolve) => {
      socket.once('ping', resolve);
    });
    // when another command has run completely, this one has ended as well
    expect((await session('/exec/default/web/app?command=echo&command=b&output=1').closed)[1]).toBe('b\n');
    expect(received).toEqual([]);
    socket.pong();
    await closed;
    expect(received).toEqual(['\x01', '\x01a\n', '\x03{"metadata":{},"status":"Success"}']);
  });

  it('supports the oldest protocols: no message on success, plain text errors, base64 as text', async () => {
    const path = '/exec/default/web/app?command=echo&command=a&output=1';
    expect(await session(path, 'channel.k8s.io').closed).toEqual({ 1: 'a\n' });
    const failed = '/exec/default/web/app?command=exit&command=42&output=1';
    expect((await session(failed, 'channel.k8s.io').closed)[3]).toBe(
      'error executing command in container: command terminated with exit code 42',
    );
    const { socket, closed } = session(path, 'v4.base64.channel.k8s.io');
    const received: string[] = [];
    socket.on('message', (data: Buffer, binary) => received.push(`${binary ? 'binary' : 'text'} ${data.toString('utf8')}`));
    await closed;
    expect(received).toEqual(['text 1', 'text 1YQo=', `text 3${Buffer.from('{"metadata":{},"status":"Success"}').toString('base64')}`]);
  });

  it('ends the command when the client disconnects', async () => {
    const { socket, opened } = session('/exec/default/web/app?command=sleep&command=infinity&command=token&output=1');
    await opened;
    const [container] = await bench.runtime.listContainers({ state: 'RUNNING' });
    const alive = async () => (await bench.runtime.execSync(container?.id ?? '', ['pgrep', 'token'], 0)).exitCode === 0;
    await expect.poll(alive).toBe(true);
    socket.terminate();
    await expect.poll(alive).toBe(false);
  });

  it('rejects invalid requests before the upgrade', async () => {
    const statusCodeOf = (path: string, protocol?: string) =>
      new Promise<number>((resolve, reject) => {
        const socket = new WebSocket(`wss://127.0.0.1:${port}${path}`, protocol ?? 'v5.channel.k8s.io', {
          ca: keys.caBundle,
          cert: client.certificate,
          key: client.key,
        });
        socket.once('unexpected-response', (clientRequest, response) => {
          resolve(response.statusCode ?? 0);
          clientRequest.destroy();
        });
        socket.once('open', () => reject(new Error('opened')));
        socket.on('error', () => undefined);
      });
    expect(await statusCodeOf('/exec/default/web/app?command=echo&output=1', 'v9.channel.k8s.io')).toBe(403);
    expect(await statusCodeOf('/exec/default/web/app?output=1')).toBe(400);
    expect(await statusCodeOf('/exec/default/web/none?command=echo&output=1')).toBe(404);
    expect(await statusCodeOf('/portForward/default/web')).toBe(403);
    expect(await statusCodeOf('/portForward/default/none', 'v4.channel.k8s.io')).toBe(404);
    expect((await get('/exec/default/web/app?command=echo')).code).toBe(400);
  });
});
