import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { configMaps } from '@oarlock/api/resources';
import { httpClient } from '@oarlock/client/http/client';
import { loadKubeconfig } from '@oarlock/client/kubeconfig';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { makeCertificates } from '../support/certificates.ts';
import { httpsFront } from '../support/https-front.ts';

const v1 = 'client.authentication.k8s.io/v1';
const certificates = await makeCertificates();

// a credential plugin that counts its calls, stores its input, and prints the content of the file `answer`
const program = `#!/bin/sh
cd "$(dirname "$0")"
printf . >> calls
printf '%s' "$KUBERNETES_EXEC_INFO" > info
printf '%s %s' "$1" "$GREETING" > input
[ -f fails ] && { echo 'no ticket' >&2; exit 3; }
cat answer
`;

describe('exec credentials of a kubeconfig', () => {
  let folder: string;
  let clock: FakeClock;
  const closers: (() => void | Promise<void>)[] = [];
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'oarlock-exec-'));
    clock = new FakeClock();
    await writeFile(join(folder, 'login'), program);
    await chmod(join(folder, 'login'), 0o700);
  });
  afterEach(async () => {
    for (const close of closers.splice(0).reverse()) await close();
    await rm(folder, { recursive: true, force: true });
  });

  const answer = (status: object, apiVersion = v1) =>
    writeFile(join(folder, 'answer'), JSON.stringify({ apiVersion, kind: 'ExecCredential', status }));
  const calls = async () => (await readFile(join(folder, 'calls'), 'utf8')).length;
  const kubeconfig = async (server: string, exec: object = {}) => {
    const config = {
      apiVersion: 'v1',
      kind: 'Config',
      'current-context': 'c',
      contexts: [{ name: 'c', context: { cluster: 'c', user: 'u' } }],
      clusters: [
        {
          name: 'c',
          cluster: {
            server,
            'certificate-authority-data': Buffer.from(certificates.ca).toString('base64'),
            extensions: [{ name: 'client.authentication.k8s.io/exec', extension: { audience: 'us' } }],
          },
        },
      ],
      users: [
        {
          name: 'u',
          user: {
            exec: {
              apiVersion: v1,
              command: './login',
              args: ['--now'],
              env: [{ name: 'GREETING', value: 'hello' }],
              interactiveMode: 'Never',
              provideClusterInfo: true,
              ...exec,
            },
          },
        },
      ],
    };
    await writeFile(join(folder, 'config'), JSON.stringify(config));
    return loadKubeconfig(join(folder, 'config'), { environment: process.env, clock });
  };
  const world = async () => {
    const api = memoryApi({ clock });
    const front = await httpsFront(api.handler, certificates);
    closers.push(() => front.close());
    const { options } = await kubeconfig(front.url);
    const client = httpClient(options);
    closers.push(() => client.close());
    const list = () => client.list(configMaps, { namespace: 'd' });
    return { front, list };
  };

  it('are requested once, with KUBERNETES_EXEC_INFO, and again when they have expired', async () => {
    const { front, list } = await world();
    await answer({ token: 't1', expirationTimestamp: new Date(clock.now() + 60_000).toISOString() });
    await Promise.all([list(), list()]);
    await list();
    expect(await calls()).toBe(1);
    expect(front.seen.map(({ headers }) => headers['authorization'])).toEqual(['Bearer t1', 'Bearer t1', 'Bearer t1']);
    expect(await readFile(join(folder, 'input'), 'utf8')).toBe('--now hello');
    expect(JSON.parse(await readFile(join(folder, 'info'), 'utf8'))).toEqual({
      apiVersion: v1,
      kind: 'ExecCredential',
      spec: {
        interactive: false,
        cluster: {
          server: front.url,
          'certificate-authority-data': Buffer.from(certificates.ca).toString('base64'),
          config: { audience: 'us' },
        },
      },
    });
    await answer({ token: 't2' });
    await clock.advance(60_000);
    await list();
    await clock.advance(86_400_000);
    await list();
    expect(await calls()).toBe(2);
    expect(front.seen.at(-1)?.headers['authorization']).toBe('Bearer t2');
  });

  it('are requested once again when the server rejects them', async () => {
    const { front, list } = await world();
    front.intercept = (_request, response, { headers }) => {
      if (headers['authorization'] === 'Bearer good') return false;
      response.writeHead(401, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ kind: 'Status', apiVersion: 'v1', status: 'Failure', reason: 'Unauthorized', code: 401 }));
      return true;
    };
    await answer({ token: 'old' });
    await expect(list()).rejects.toMatchObject({ code: 401 });
    expect(await calls()).toBe(2);
    await answer({ token: 'good' });
    await list();
    expect(await calls()).toBe(3);
  });

  it('can be a client certificate, which the next connection uses', async () => {
    const { front, list } = await world();
    await answer({ clientCertificateData: certificates.client.cert, clientKeyData: certificates.client.key });
    await list();
    expect(front.seen.at(-1)).toMatchObject({ certificate: 'alice' });
    expect(front.seen.at(-1)?.headers['authorization']).toBeUndefined();
  });

  it("fail with the plugin's error output, and work again when the plugin works", async () => {
    const { list } = await world();
    await answer({ token: 't1' });
    await writeFile(join(folder, 'fails'), '');
    await expect(list()).rejects.toMatchObject({
      code: 503,
      message: expect.stringContaining('./login failed with exit code 3: no ticket') as string,
    });
    await rm(join(folder, 'fails'));
    await list();
  });

  it.each([
    ['no JSON', 'secret', 'its output is no JSON'],
    [
      'another version',
      JSON.stringify({ apiVersion: 'client.authentication.k8s.io/v1beta1', kind: 'ExecCredential', status: {} }),
      'v1beta1',
    ],
    ['no status', JSON.stringify({ apiVersion: v1, kind: 'ExecCredential' }), 'status: Required value'],
    ['nothing in it', JSON.stringify({ apiVersion: v1, kind: 'ExecCredential', status: {} }), 'neither a token nor a certificate'],
    [
      'half a pair',
      JSON.stringify({ apiVersion: v1, kind: 'ExecCredential', status: { token: 'secret', clientKeyData: 'k' } }),
      'one without the other',
    ],
    [
      'no time',
      JSON.stringify({ apiVersion: v1, kind: 'ExecCredential', status: { token: 'secret', expirationTimestamp: 'soon' } }),
      'status.expirationTimestamp',
    ],
  ])('are rejected without being quoted if the plugin prints %s', async (_what, text, message) => {
    const { credentials } = (await kubeconfig('https://x')).options;
    await writeFile(join(folder, 'answer'), text);
    const error = await credentials?.get().catch((thrown: Error) => thrown);
    expect(error).toMatchObject({ name: 'ExecCredentialError', code: 'Malformed' });
    expect((error as Error).message).toContain(message);
    expect((error as Error).message).not.toContain('secret');
  });

  it('report the install hint of a missing plugin, and invalid settings of the kubeconfig', async () => {
    const { credentials } = (await kubeconfig('https://x', { command: 'no-such-program-here', installHint: 'install it from example.com' }))
      .options;
    await expect(credentials?.get()).rejects.toMatchObject({
      code: 'NotFound',
      message: 'exec: no-such-program-here cannot be run: install it from example.com',
    });
    const wrong: readonly (readonly [object, string])[] = [
      [{ apiVersion: 'client.authentication.k8s.io/v1alpha1' }, 'exec.apiVersion'],
      [{ command: '' }, 'exec.command: Required value'],
      [{ interactiveMode: undefined }, 'exec.interactiveMode: Required value'],
      [{ interactiveMode: 'Always' }, 'exec.interactiveMode'],
      [{ args: [1] }, 'exec.args'],
      [{ env: [{ name: 'x' }] }, 'exec.env'],
    ];
    for (const [exec, message] of wrong)
      await expect(kubeconfig('https://x', exec)).rejects.toMatchObject({
        code: 'Malformed',
        message: expect.stringContaining(message) as string,
      });
    // interactiveMode is optional in v1beta1, as in client-go
    await kubeconfig('https://x', {
      apiVersion: 'client.authentication.k8s.io/v1beta1',
      interactiveMode: undefined,
      args: null,
      env: null,
    });
  });
});
