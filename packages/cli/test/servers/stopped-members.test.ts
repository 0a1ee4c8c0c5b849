import { once } from 'node:events';
import { createServer, type AddressInfo, type Server } from 'node:net';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { requireMembersStopped } from '../../src/servers/stopped-members.ts';

let member: Server;
let url: string;
beforeEach(async () => {
  member = createServer();
  member.listen(0, '127.0.0.1');
  await once(member, 'listening');
  url = `https://127.0.0.1:${(member.address() as AddressInfo).port}`;
});
afterEach(() => {
  member.close();
});

it('rejects while another member runs', async () => {
  await expect(requireMembersStopped([url, 'https://127.0.0.1:1'])).rejects.toThrow(
    `${url} is a member that still runs: two clusters would exist. Stop the other servers with \`oarlock down\`, or their machines`,
  );
});

it('resolves when no other member runs', async () => {
  member.close();
  await once(member, 'close');
  await requireMembersStopped([url, 'https://[::1]:1']);
  await requireMembersStopped([]);
});
