import { existsSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { chromium, type Browser } from 'playwright-core';
import { parse } from 'yaml';
import { chromiumArguments, chromiumFile } from './browser.ts';
import { mustRun } from './programs.ts';

const tools = ['/usr/bin/certutil', '/usr/bin/pk12util', '/usr/bin/openssl', '/usr/bin/unshare'];

/** Returns why no browser can have a client certificate; undefined if one can. The policy of the browser is mounted, which needs root. */
export function browserCertificateMissing(): string | undefined {
  const missing = tools.find((tool) => !existsSync(tool));
  if (missing !== undefined) return `${missing} is not installed`;
  return process.getuid?.() === 0 ? undefined : 'it needs root';
}

interface Kubeconfig {
  readonly users: readonly { readonly user: { readonly 'client-certificate-data': string; readonly 'client-key-data': string } }[];
}

/**
 * Starts Chromium with the client certificate of a kubeconfig in its certificate store, and with a policy that selects it for an origin, as an administrator
 * configures it: a headless Chromium has no dialog to select it. Playwright's own client certificates end Node.js 20.
 * @param dir a directory that does not exist yet, for the profile
 */
export async function launchBrowserWithCertificate(dir: string, kubeconfig: string, origin: string): Promise<Browser> {
  const [home, config] = [join(dir, 'home'), join(dir, 'etc')];
  const store = join(home, '.pki', 'nssdb');
  const policies = join(config, 'policies', 'managed');
  for (const each of [store, policies]) await mkdir(each, { recursive: true, mode: 0o700 });
  const [user] = (parse(await readFile(kubeconfig, 'utf8')) as Kubeconfig).users;
  const pem = [user?.user['client-certificate-data'], user?.user['client-key-data']].map((data = '') => Buffer.from(data, 'base64'));
  const bundle = join(dir, 'client.pem');
  await writeFile(bundle, Buffer.concat(pem), { mode: 0o600 });
  const archive = join(dir, 'client.p12');
  await mustRun('openssl', ['pkcs12', '-export', '-in', bundle, '-out', archive, '-passout', 'pass:']);
  await mustRun('certutil', ['-N', '-d', `sql:${store}`, '--empty-password']);
  await mustRun('pk12util', ['-i', archive, '-d', `sql:${store}`, '-W', '']);
  const selection = JSON.stringify({ pattern: origin, filter: {} });
  await writeFile(join(policies, 'certificate.json'), JSON.stringify({ AutoSelectCertificateForUrls: [selection] }));
  // in a mount namespace of its own, so that no other browser of the machine has the policy
  const start = join(dir, 'chromium');
  const command = `mount --bind '${config}' /etc/chromium && exec ${chromiumFile} "$@"`;
  await writeFile(start, `#!/bin/sh\nexec unshare --mount sh -c '${command.replaceAll("'", String.raw`'\''`)}' sh "$@"\n`, { mode: 0o755 });
  return chromium.launch({ executablePath: start, args: [...chromiumArguments], env: { ...process.env, HOME: home } });
}
