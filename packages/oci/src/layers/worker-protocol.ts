import type { CopyLayersRequest } from './copy-layers.ts';
import type { ExtractLayerRequest } from './extract-layer.ts';
import type { LayerContent } from './layer-record.ts';

/** Work on trees of files, which is synchronous and therefore runs in threads. */
export interface TreeWork {
  readonly extract: { readonly request: ExtractLayerRequest; readonly result: LayerContent };
  readonly copy: { readonly request: CopyLayersRequest; readonly result: null };
  readonly remove: { readonly request: { readonly path: string }; readonly result: null };
  readonly usage: { readonly request: { readonly path: string }; readonly result: { readonly usedBytes: number; readonly inodes: number } };
}
export type TreeWorkKind = keyof TreeWork;
export interface TreeWorkMessage {
  readonly kind: TreeWorkKind;
  readonly request: TreeWork[TreeWorkKind]['request'];
}
export type TreeWorkAnswer =
  | { readonly result: TreeWork[TreeWorkKind]['result'] }
  | { readonly error: { readonly message: string; readonly code?: string; readonly isOciError: boolean } };
