import { createPublicKey, type KeyObject } from 'node:crypto';
import type { ClusterKeys } from '@oarlock/spi/cluster';

/** The public keys that verify service account tokens. A key rotation replaces them while the server runs. */
export class VerifyingKeys {
  readonly #keys: Pick<ClusterKeys, 'serviceAccount'>;
  readonly #onRotation: () => void;
  #parsed: { readonly from: readonly string[]; readonly keys: readonly KeyObject[] } | undefined;

  /** @param onRotation called when the keys have changed, before the new keys are returned */
  constructor(keys: Pick<ClusterKeys, 'serviceAccount'>, onRotation: () => void) {
    this.#keys = keys;
    this.#onRotation = onRotation;
  }

  current(): readonly KeyObject[] {
    const { verifyingKeys } = this.#keys.serviceAccount;
    if (this.#parsed?.from !== verifyingKeys) {
      this.#onRotation();
      this.#parsed = { from: verifyingKeys, keys: verifyingKeys.map((pem) => createPublicKey(pem)) };
    }
    return this.#parsed.keys;
  }
}
