import { readdirSync, readFileSync } from 'node:fs';
import { request as httpRequest } from 'node:http';
import { createServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { rejectUpgrade } from '@oarlock/primitives/net/keep-alive-connection';
import { expect, it } from 'vitest';

const switching = 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n';

it('a request fails if the server switches protocols unrequested', async () => {
  const server = createServer((socket) => socket.on('error', () => {}).once('data', () => socket.write(switching)));
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const attempt = new Promise((resolve, reject) => {
    const request = httpRequest({ host: '127.0.0.1', port: (server.address() as AddressInfo).port });
    request.once('response', resolve).once('error', reject);
    rejectUpgrade(request);
    request.end();
  });
  await expect(attempt).rejects.toThrow('the server switched protocols');
  // the client has closed the connection, or this would not end
  await new Promise((resolve) => {
    server.close(resolve);
  });
});

it('every client of node:http handles a server that switches protocols', () => {
  const root = join(import.meta.dirname, '../../../..');
  const clients = ['packages', 'plugins'].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .filter((file) => /^[^/]+\/src\/.*\.ts$/.test(file))
      .map((file) => join(root, folder, file)),
  );
  const unprotected = clients.filter((file) => {
    const source = readFileSync(file, 'utf8');
    const sends = /import \{[^}]*\brequest\b[^}]*\} from 'node:https?'|https?\.?\)?\.request\(/.test(source);
    return sends && !/rejectUpgrade\(|once\('upgrade'|proxyUpgrade\(/.test(source);
  });
  expect(unprotected).toEqual([]);
});
