import { createServer, type AddressInfo } from 'node:net';
import { expect, it } from 'vitest';
import { webhookEndpoint } from '../../src/dev/webhook-endpoint.ts';

const { signal } = new AbortController();
const options = { servers: [], signal };

it('listens at the address of this machine that the API server sees', async () => {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const endpoint = await webhookEndpoint({ servers: [`https://127.0.0.1:${port}`], signal });
  expect(endpoint).toMatchObject({ address: '127.0.0.1', port: 0, host: '127.0.0.1' });
  expect(endpoint.urlOf(4000)).toBe('https://127.0.0.1:4000');
  await new Promise((resolve) => server.close(resolve));
});

it('listens on loopback behind a tunnel, whose URL is the one to call', async () => {
  const endpoint = await webhookEndpoint({ ...options, webhookUrl: 'https://tunnel.example.com:4443/dev/', port: 4000 });
  expect(endpoint).toMatchObject({ address: '127.0.0.1', port: 4000, host: 'tunnel.example.com' });
  expect(endpoint.urlOf(4000)).toBe('https://tunnel.example.com:4443/dev');
});

it.each([
  ['http://10.0.0.1', '--webhook-url: must be an https URL without user, query and fragment, not "http://10.0.0.1"'],
  ['https://:secret@10.0.0.1', '--webhook-url: must be an https URL without user'],
  ['tunnel', '--webhook-url: must be an https URL without user, query and fragment, not "tunnel"'],
  ['https://tunnel.example.com', '--webhook-url: tunnel.example.com is no address of this machine; name the local port'],
])('rejects %j', async (webhookUrl, message) => {
  await expect(webhookEndpoint({ ...options, webhookUrl })).rejects.toThrow(message);
});
