import { parentPort } from 'node:worker_threads';
import { bytePath } from '../archive/byte-path.ts';
import { copyLayers, type CopyLayersRequest } from './copy-layers.ts';
import { extractLayer, type ExtractLayerRequest } from './extract-layer.ts';
import { treeUsage } from './tree-usage.ts';
import { removeTree } from './remove-tree.ts';
import type { TreeWork, TreeWorkAnswer, TreeWorkKind, TreeWorkMessage } from './worker-protocol.ts';
import { OciError } from '../oci-error.ts';

// The program of the threads of `layers/tree-workers.ts`.

async function run({ kind, request }: TreeWorkMessage): Promise<TreeWork[TreeWorkKind]['result']> {
  if (kind === 'extract') return extractLayer(request as ExtractLayerRequest);
  if (kind === 'usage') return treeUsage(bytePath((request as { readonly path: string }).path));
  if (kind === 'copy') copyLayers(request as CopyLayersRequest);
  else removeTree((request as { readonly path: string }).path);
  return null;
}

const port = parentPort;
if (port === null) throw new Error('this program must run in a worker thread');
const answer = (message: TreeWorkAnswer): void => port.postMessage(message);
const fail = (error: NodeJS.ErrnoException): void =>
  answer({
    error: { message: error.message, ...(error.code !== undefined && { code: error.code }), isOciError: error instanceof OciError },
  });
port.on('message', (message: TreeWorkMessage) => {
  run(message).then((result) => answer({ result }), fail);
});
