import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { loadHosts } from '@oarlock/oci/registry/host-config';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'oarlock-hosts-'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

function write(folder: string, text: string): void {
  mkdirSync(join(directory, folder), { recursive: true });
  writeFileSync(join(directory, folder, 'hosts.toml'), text);
}
const urls = async (host: string) => (await loadHosts(directory, host)).map(({ baseUrl }) => baseUrl);

describe('loadHosts', () => {
  it('uses https, and http for the loopback interface, without a file', async () => {
    expect(await urls('docker.io')).toEqual(['https://registry-1.docker.io/v2']);
    expect(await urls('ghcr.io')).toEqual(['https://ghcr.io/v2']);
    for (const host of ['localhost', '127.0.0.1:5000', '[::1]:5000']) expect(await urls(host)).toEqual([`http://${host}/v2`]);
    expect(await urls('localhost:443')).toEqual(['https://localhost/v2']);
  });

  it('reads mirrors in their order, the server, and its settings', async () => {
    writeFileSync(join(directory, 'ca.pem'), 'CA');
    write(
      'docker.io',
      [
        'server = "https://registry-1.docker.io"',
        'ca = "../ca.pem"',
        '[host."http://mirror:5000"]',
        '  capabilities = ["pull"]',
        '[host."https://second/v2/cache"]',
        '  override_path = true',
        '  skip_verify = true',
        '  dial_timeout = "5s"',
        '[host."https://third/cache"]',
      ].join('\n'),
    );
    const hosts = await loadHosts(directory, 'docker.io');
    expect(hosts.map(({ baseUrl }) => baseUrl)).toEqual([
      'http://mirror:5000/v2',
      'https://second/v2/cache',
      'https://third/cache/v2',
      'https://registry-1.docker.io/v2',
    ]);
    expect(hosts.map(({ isMirror }) => isMirror)).toEqual([true, true, true, false]);
    expect([...(hosts[0]?.capabilities ?? [])]).toEqual(['pull']);
    expect(hosts[1]).toMatchObject({ tls: { skipVerify: true }, dialTimeoutMs: 5000 });
    expect(hosts[3]?.tls.ca).toEqual(['CA']);
  });

  it('finds the directory of a port, and the default', async () => {
    write('_default', 'server = "https://default"');
    write('registry_5000_', 'server = "http://underscore"');
    expect(await urls('registry:5000')).toEqual(['http://underscore/v2']);
    expect(await urls('other:5000')).toEqual(['https://default/v2']);
  });

  it.each([
    ['server = ', /hosts\.toml: /],
    ['[host."ftp://x"]', /"ftp:\/\/x" is not an http or https URL/],
    ['[host."https://x"]\ncapabilities = ["fly"]', /host\.https:\/\/x\.capabilities/],
    ['ca = "absent.pem"', /absent\.pem does not exist/],
    ['dial_timeout = "soon"', /"soon" is not a duration/],
  ])('rejects %j with the file and field', async (text, message) => {
    write('x', text);
    await expect(loadHosts(directory, 'x')).rejects.toMatchObject({ code: 'FailedPrecondition', message: expect.stringMatching(message) });
  });
});
