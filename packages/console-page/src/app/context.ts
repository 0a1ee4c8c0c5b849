import { createContext } from 'preact';
import { useContext } from 'preact/hooks';
import type { ApiClient } from '../api/client.ts';
import type { ApiResource } from '../api/resources.ts';
import type { ServerFeatures } from '../api/server-features.ts';
import type { SessionInfo } from './session.ts';

export type ToastKind = 'info' | 'success' | 'error';

/** What every view uses. */
export interface AppContext {
  readonly client: ApiClient;
  readonly session: SessionInfo;
  readonly resources: readonly ApiResource[];
  readonly features: ServerFeatures;
  /** The namespace that tables and new objects use; '' for all namespaces. Kept while the user changes the view. */
  readonly namespace: string;
  setNamespace(namespace: string): void;
  /** Discovers the resources again: CustomResourceDefinitions come and go while the page is open. */
  refreshResources(): void;
  toast(kind: ToastKind, message: string): void;
}

export const App = createContext<AppContext | undefined>(undefined);

export function useApp(): AppContext {
  const app = useContext(App);
  if (app === undefined) throw new Error('the component is used outside of the application');
  return app;
}
