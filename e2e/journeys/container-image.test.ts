import { spawn } from 'node:child_process';
import { cp, mkdir, readFile, realpath, writeFile } from 'node:fs/promises';
import { request } from 'node:http';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { pack } from '../../tools/pack.mjs';
import { standalone } from '../../tools/standalone.mjs';
import { tar, type TarEntry } from '../fixtures/tar.ts';
import { buildImage, busyboxLayer, imageArchive } from '../fixtures/test-image.ts';
import { componentMissing } from '../harness/component-availability.ts';
import { everythingIsNeeded, Machine } from '../harness/machine.ts';
import { root } from '../harness/oarlock.ts';
import { runProgram } from '../harness/programs.ts';
import { until } from '../harness/until.ts';

const reason = await componentMissing.docker();
const base = 'oarlock.test/node-libraries:1';
const image = 'oarlock.test/oarlock:1';

interface Answer {
  readonly status: number;
  readonly body: string;
}
interface Inspected {
  readonly Config: { readonly User: string };
  readonly State: {
    readonly Running: boolean;
    readonly ExitCode: number;
    readonly Health: { readonly Status: string; readonly Log: unknown };
  };
}

/** Sends a request to a Docker engine. The body is JSON, or the output of a program that writes a tar archive. */
function engine(socketPath: string, [method, path]: readonly [string, string], body?: object | readonly string[]): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const isArchive = Array.isArray(body);
    const headers = { 'content-type': isArchive ? 'application/x-tar' : 'application/json' };
    const sent = request({ socketPath, method, path, headers }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('error', reject);
      response.on('end', () => resolve({ status: response.statusCode ?? 0, body: Buffer.concat(chunks).toString('utf8') }));
    }).once('error', reject);
    if (isArchive)
      spawn('tar', body as string[], { stdio: ['ignore', 'pipe', 'inherit'] })
        .once('error', reject)
        .stdout.pipe(sent);
    else sent.end(body === undefined ? '' : JSON.stringify(body));
  });
}

/** A base image for machines without a registry: busybox, and the libraries that this machine's Node is linked with. */
async function baseImage() {
  const { stdout } = await runProgram('ldd', [process.execPath]);
  const libraries = [...stdout.matchAll(/(\/\S+) \(0x/g)].map(([, path = '']) => path);
  const entries: TarEntry[] = await Promise.all(
    libraries.map(async (path) => ({
      type: 'file' as const,
      path: path.slice(1),
      mode: 0o755,
      bytes: await readFile(await realpath(path)),
    })),
  );
  return buildImage(base, [await busyboxLayer(), tar(entries)], {});
}

describe.skipIf(reason !== undefined && !everythingIsNeeded)(`the container image${reason === undefined ? '' : ` (${reason})`}`, () => {
  const machine = Machine.use();

  it('runs a control plane as an ordinary user, and becomes healthy', { timeout: 300_000 }, async () => {
    const folder = machine.path('image');
    await mkdir(folder);
    const packed = join(folder, 'packed');
    await pack(packed);
    const context = join(folder, 'context');
    await cp(join(root, 'packaging', 'docker'), context, { recursive: true });
    await mkdir(join(context, 'oarlock'));
    const archive = await standalone(join(packed, 'oarlock'), folder);
    await runProgram('tar', ['-xzf', archive, '--strip-components=1', '-C', join(context, 'oarlock')]);

    const { socket, importImages } = await machine.docker();
    await writeFile(join(folder, 'base.tar'), imageArchive([await baseImage()]));
    await importImages(join(folder, 'base.tar'));
    const query = new URLSearchParams({ t: image, networkmode: 'none', buildargs: JSON.stringify({ BASE: base }) });
    const built = await engine(socket, ['POST', `/build?${query}`], ['-cf', '-', '-C', context, '.']);
    expect(built, built.body).toMatchObject({ status: 200, body: expect.stringContaining('Successfully tagged') });

    const HostConfig = {
      NetworkMode: 'none',
      ReadonlyRootfs: true,
      Tmpfs: { '/tmp': '' },
      CapDrop: ['ALL'],
      SecurityOpt: ['no-new-privileges'],
    };
    const created = await engine(socket, ['POST', '/containers/create'], { Image: image, HostConfig });
    const { Id } = JSON.parse(created.body) as { readonly Id: string };
    const inspect = async () => JSON.parse((await engine(socket, ['GET', `/containers/${Id}/json`])).body) as Inspected;
    const logs = async () => (await engine(socket, ['GET', `/containers/${Id}/logs?stdout=1&stderr=1`])).body;
    try {
      expect((await engine(socket, ['POST', `/containers/${Id}/start`])).status).toBe(204);
      const healthy = await until('the container is healthy or has ended', async () => {
        const found = await inspect();
        return (found.State.Health.Status === 'healthy' || !found.State.Running) && found;
      });
      expect(healthy.State.Health.Status, await logs()).toBe('healthy');
      expect(healthy.Config.User).toBe('65532:65532');
      await engine(socket, ['POST', `/containers/${Id}/stop?t=60`]);
      expect((await inspect()).State.ExitCode, await logs()).toBe(0);
    } finally {
      await engine(socket, ['DELETE', `/containers/${Id}?force=1&v=1`]);
    }
  });
});
