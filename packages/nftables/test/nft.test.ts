import { inOwnNetwork, isolated } from '@oarlock/testing/own-network';
import { describe, expect, it } from 'vitest';
import { nftAvailability } from '../src/availability.ts';
import { census } from '../src/census.ts';
import { nft } from '../src/nft.ts';

if (!isolated) inOwnNetwork(import.meta.url);
else
  describe('nftables', () => {
    it('is here', async () => {
      expect(await nftAvailability()).toMatchObject({ available: true });
    });

    it('does all of what is asked or nothing', async () => {
      await nft('add table ip one\nadd set ip one s { type ipv4_addr; elements = { 10.0.0.1, 10.0.0.2 } }\n');
      expect(await census('ip', 'one')).toMatchObject({ table: 1, set: 1, elements: 2 });
      const half = 'add table ip two\nadd rule ip two nowhere accept\n';
      await expect(nft(half)).rejects.toMatchObject({ name: 'NftError', code: 'Refused', message: expect.stringContaining('nowhere') });
      expect(await census()).toMatchObject({ table: 1 });
    });
  });
