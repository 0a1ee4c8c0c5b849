import { expect, it, vi } from 'vitest';
import { Document } from 'yaml';
import { toYaml } from '../../src/endpoints/negotiation/internal/to-yaml.ts';

vi.mock('yaml', { spy: true });

it('writes a large object without the YAML library, which takes a second for it', () => {
  const env = Array.from({ length: 5_000 }, (_, n) => ({ name: `E${n}`, value: 'https://example.com/a b' }));
  expect(toYaml({ spec: { env, 'k:{"name":"a"}': {} } }).length).toBeGreaterThan(200_000);
  expect(Document).not.toHaveBeenCalled();
});
