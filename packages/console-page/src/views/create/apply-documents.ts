import { errorText, isApiError, type ApiClient, type KubeObject } from '../../api/client.ts';
import { pathOf, resourceOfKind, type ApiResource } from '../../api/resources.ts';
import { text } from '../../text/en.ts';

export interface ApplyOptions {
  readonly client: ApiClient;
  /** The namespace of objects without one. */
  readonly namespace: string;
  readonly dryRun: boolean;
  /** Takes over fields that other managers own. */
  readonly force: boolean;
  /** Returns the resources; called again if a kind is unknown, because an earlier document may have defined it. */
  resources(isUnknown: boolean): Promise<readonly ApiResource[]>;
}
export interface ApplyResult {
  readonly title: string;
  readonly outcome: 'created' | 'configured' | 'unchanged' | 'failed';
  readonly message: string;
  readonly resource?: ApiResource;
  readonly namespace?: string;
  readonly name?: string;
}

const fieldManager = 'oarlock-console';

/** Applies documents one after the other with server-side apply. A document that fails does not keep the later ones from being applied. */
export async function applyDocuments(documents: readonly Partial<KubeObject>[], options: ApplyOptions): Promise<readonly ApplyResult[]> {
  const results: ApplyResult[] = [];
  for (const [index, document] of documents.entries()) results.push(await applyDocument(document, index, options));
  return results;
}

async function applyDocument(document: Partial<KubeObject>, index: number, options: ApplyOptions): Promise<ApplyResult> {
  const { apiVersion, kind, metadata } = document;
  const { name, generateName } = metadata ?? {};
  if (apiVersion === undefined || kind === undefined || metadata === undefined || (name ?? generateName) === undefined)
    return { title: text.create.document(index + 1), outcome: 'failed', message: text.create.noKind };
  const title = `${kind} ${name ?? generateName}`;
  try {
    const resource = await findResource(apiVersion, kind, options);
    if (resource === undefined) return { title, outcome: 'failed', message: text.create.unknownKind(`${kind} of ${apiVersion}`) };
    const namespace = resource.namespaced ? (metadata.namespace ?? options.namespace) : '';
    const { managedFields: _managed, ...ownMetadata } = metadata;
    const object = { ...document, metadata: { ...ownMetadata, ...(namespace !== '' && { namespace }) } };
    if (name === undefined) return { resource, namespace, ...(await createDocument(pathOf(resource, namespace), object, options)) };
    const outcome = await sendDocument(pathOf(resource, namespace, name), object, options);
    return { title, outcome, message: '', resource, namespace, name };
  } catch (error) {
    return { title, outcome: 'failed', message: errorText(error) };
  }
}

async function findResource(apiVersion: string, kind: string, { resources }: ApplyOptions): Promise<ApiResource | undefined> {
  return resourceOfKind(await resources(false), apiVersion, kind) ?? resourceOfKind(await resources(true), apiVersion, kind);
}

/** Creates an object whose name the server generates: there is none to merge it with. */
async function createDocument(
  path: string,
  object: Partial<KubeObject>,
  { client, dryRun }: ApplyOptions,
): Promise<Pick<ApplyResult, 'title' | 'outcome' | 'message' | 'name'>> {
  const { metadata } = await client.json<KubeObject>(path, {
    method: 'POST',
    body: JSON.stringify(object),
    query: { fieldManager, fieldValidation: 'Strict', ...(dryRun && { dryRun: 'All' }) },
  });
  return { title: `${object.kind} ${metadata.name}`, outcome: 'created', message: '', name: metadata.name };
}

async function sendDocument(
  path: string,
  object: unknown,
  { client, dryRun, force }: ApplyOptions,
): Promise<'created' | 'configured' | 'unchanged'> {
  const before = await client.json<KubeObject>(path).catch((error: unknown) => {
    if (isApiError(error, 403, 404)) return undefined;
    throw error;
  });
  const response = await client.send(path, {
    method: 'PATCH',
    contentType: 'application/apply-patch+yaml',
    body: JSON.stringify(object),
    query: { fieldManager, fieldValidation: 'Strict', ...(force && { force }), ...(dryRun && { dryRun: 'All' }) },
  });
  const after = (await response.json()) as KubeObject;
  if (response.status === 201) return 'created';
  return after.metadata.resourceVersion === before?.metadata.resourceVersion ? 'unchanged' : 'configured';
}
