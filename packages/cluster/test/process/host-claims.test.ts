import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { HostClaims } from '@oarlock/cluster/process/host-claims';
import { describe, expect, it } from 'vitest';

describe.runIf(process.platform === 'linux')('HostClaims', () => {
  const name = `test/${process.pid}`;

  it('lets one instance hold a name until it releases the name', async () => {
    const [first, second] = [new HostClaims(), new HostClaims()];
    try {
      expect(await first.claim(name)).toBe(true);
      expect(await second.claim(name)).toBe(false);
      first.release();
      expect(await second.claim(name)).toBe(true);
    } finally {
      first.release();
      second.release();
    }
  });

  it('does not claim a port on which a program listens', async () => {
    const claims = new HostClaims();
    const program = createServer().listen(0, '127.0.0.1');
    await once(program, 'listening');
    const { port } = program.address() as AddressInfo;
    try {
      expect(await claims.claimPort(port, '127.0.0.1')).not.toBe(port);
    } finally {
      program.close();
      claims.release();
    }
  });

  it('does not claim a port that another instance claimed and does not listen on yet', async () => {
    const [first, second] = [new HostClaims(), new HostClaims()];
    try {
      const port = await first.claimPort(undefined, '127.0.0.1');
      expect(await second.claimPort(port, '127.0.0.1')).not.toBe(port);
    } finally {
      first.release();
      second.release();
    }
  });
});
