import { storageKey } from '../api/page-key.ts';

/** Calls the function when another tab has signed in: its session counts for all tabs. Returns a function that ends this. */
export function onSignInElsewhere(work: () => void): () => void {
  const onStorage = ({ key }: StorageEvent) => {
    if (key === storageKey) work();
  };
  addEventListener('storage', onStorage);
  return () => removeEventListener('storage', onStorage);
}
