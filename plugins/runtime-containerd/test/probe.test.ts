import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import plugin from '../src/plugin.ts';
import { probeSocket } from '../src/probe.ts';
import { CriServer, version } from './support/cri-server.ts';

let dir: string;
const listening: Server[] = [];
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'oarlock-probe-'));
});
afterAll(async () => {
  for (const server of listening) server.close();
  await rm(dir, { recursive: true, force: true });
});

const probe = async (socket: string) => plugin.probe?.(plugin.config.parse({ socket }));
async function listen(name: string, greeting: string): Promise<string> {
  const socket = join(dir, name);
  const server = createServer((connection) => {
    connection.on('error', () => {});
    connection.write(greeting);
  }).listen(socket);
  listening.push(server);
  await once(server, 'listening');
  return socket;
}

describe('probeSocket', () => {
  it('reports a runtime that serves CRI v1 as available', async () => {
    const server = await CriServer.start({ unary: { Version: () => version } });
    expect(await probe(server.socket)).toEqual({ available: true });
    await server.dispose();
  });

  it('reports a missing socket and a file that is not a socket', async () => {
    expect(await probe(join(dir, 'none'))).toMatchObject({
      available: false,
      reason: expect.stringMatching(/no socket at .*not installed, or does not run/),
    });
    await writeFile(join(dir, 'file'), '');
    expect(await probe(join(dir, 'file'))).toMatchObject({ reason: expect.stringContaining('is not a socket') });
    expect(await probe(join(dir, 'file', 'below'))).toMatchObject({ reason: expect.stringContaining('no socket at') });
  });

  it('reports servers that are not CRI v1, too old, broken or silent', async () => {
    expect(await probe(await listen('http', 'HTTP/1.1 400 Bad Request\r\n\r\n'))).toMatchObject({
      available: false,
      reason: expect.stringContaining('does not serve CRI v1'),
    });
    const old = await CriServer.start({});
    expect(await probe(old.socket)).toMatchObject({
      reason: expect.stringContaining('does not serve CRI v1: its CRI plugin is disabled'),
    });
    await old.dispose();
    expect(await probeSocket(await listen('mute', ''), 100)).toMatchObject({
      reason: expect.stringContaining('did not answer within 100 ms'),
    });
  });

  it('reports that the runtime has ended', async () => {
    const socket = join(dir, 'dead');
    // a killed process leaves its socket file
    const child = spawn(
      process.execPath,
      ['-e', `require('net').createServer().listen(${JSON.stringify(socket)}, () => console.log('up'))`],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    );
    await once(child.stdout, 'data');
    child.kill('SIGKILL');
    await once(child, 'exit');
    expect(await probe(socket)).toMatchObject({ reason: expect.stringContaining('no process listens') });
  });

  it.skipIf(process.getuid?.() === 0)('reports a missing permission to connect (root always has it)', async () => {
    const socket = await listen('closed', '');
    await chmod(socket, 0o000);
    expect(await probe(socket)).toMatchObject({ reason: expect.stringContaining('no permission to connect') });
  });

  it('the config schema rejects unknown keys', () => {
    expect(plugin.config.safeParse({ sock: '/x' }).success).toBe(false);
    expect(plugin.config.safeParse({ socket: 'relative' }).success).toBe(false);
    expect(plugin.config.parse({})).toMatchObject({ socket: '/run/containerd/containerd.sock' });
  });
});
