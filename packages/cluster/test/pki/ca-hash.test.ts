import { expect, it } from 'vitest';
import { caExpirations, caHashes } from '../../src/pki/ca-hash.ts';
import { selfSigned } from '../../src/pki/certificate-writer.ts';
import { newKey } from '../../src/pki/key-pair.ts';

it('returns the ends of the certificates of a bundle by their hashes', () => {
  const bundle = `${selfSigned('a', newKey()).certificate}${selfSigned('b', newKey()).certificate}`;
  const expirations = caExpirations(bundle);
  expect(Object.keys(expirations)).toEqual(caHashes(bundle));
  for (const end of Object.values(expirations)) expect(Date.parse(end)).toBeGreaterThan(Date.now() + 3649 * 86_400_000);
});
