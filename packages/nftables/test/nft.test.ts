import { inNetworkNamespace, isInNetworkNamespace } from '@oarlock/testing/network/network-namespace';
import { describe, expect, it } from 'vitest';
import { nftAvailability } from '../src/availability.ts';
import { countObjects } from '../src/object-counts.ts';
import { nft } from '../src/nft.ts';

if (!isInNetworkNamespace) inNetworkNamespace(import.meta.url);
else
  describe('nftables', () => {
    it('is available', async () => {
      expect(await nftAvailability()).toMatchObject({ available: true });
    });

    it('applies all commands or none', async () => {
      await nft('add table ip one\nadd set ip one s { type ipv4_addr; elements = { 10.0.0.1, 10.0.0.2 } }\n');
      expect(await countObjects('ip', 'one')).toMatchObject({ table: 1, set: 1, elements: 2 });
      const half = 'add table ip two\nadd rule ip two nowhere accept\n';
      await expect(nft(half)).rejects.toMatchObject({ name: 'NftError', code: 'Refused', message: expect.stringContaining('nowhere') });
      expect(await countObjects()).toMatchObject({ table: 1 });
    });
  });
