import { useMemo, useReducer, useState } from 'preact/hooks';
import { isApiError, type ApiClient, type KubeObject, type ManagedFieldsEntry } from '../../../api/client.ts';
import { useApp } from '../../../app/context.ts';
import { useClock, useLoaded } from '../../../app/hooks.ts';
import { link } from '../../../app/router.ts';
import { ageOf } from '../../../components/age.ts';
import { ErrorMessage } from '../../../components/error-message.tsx';
import { text } from '../../../text/en.ts';
import type { TabProps } from '../object-page.tsx';
import { tracedObject, tracesPath, type TraceResponse } from '../trace/traced-object.ts';
import { fieldChanges, type FieldChange } from './field-changes.ts';
import { ObjectVersions, previousReader, type ObjectVersion } from './object-versions.ts';

const words = text.changes;
const versionsPerRead = 10;

/** The user and the trace of a write. */
interface Write {
  readonly user: string;
  readonly traceId: string;
}

/** Returns the recorded writes of the object by their resource version; none where the user may not read traces. */
async function recordedWrites(client: ApiClient, object: string, signal: AbortSignal): Promise<ReadonlyMap<string, Write>> {
  try {
    const { about } = await client.json<TraceResponse>(tracesPath, { query: { object, writes: true }, signal });
    return new Map(about.map(({ traceId, attributes }) => [String(attributes['oarlock.revision']), { user: String(attributes['oarlock.user'] ?? ''), traceId }]));
  } catch (error) {
    if (isApiError(error, 403, 404)) return new Map();
    throw error;
  }
}

/** The changes of the object: user, time, and the values before and after. */
export function ChangesTab({ resource, object }: TabProps) {
  const { client, features } = useApp();
  const [hidesStatus, setHidesStatus] = useState(false);
  const [earlier, setEarlier] = useState(0);
  const [, render] = useReducer((count: number) => count + 1, 0);
  const versions = useMemo(() => new ObjectVersions(object, previousReader(client, resource), () => render(undefined)), [object.metadata.uid]);
  const { error, isLoading, value: writes = new Map<string, Write>() } = useLoaded(object.metadata.resourceVersion, async (signal) => {
    await versions.add(object, versionsPerRead, signal);
    return features.isOarlock ? recordedWrites(client, tracedObject(resource, object.metadata), signal) : undefined;
  });
  const more = useLoaded(`earlier ${earlier}`, (signal) => (earlier === 0 ? Promise.resolve() : versions.loadEarlier(versionsPerRead, signal)));
  const { list } = versions;
  const { previous } = list.at(-1) ?? {};
  return (
    <div class="tab-body">
      <p class="quiet-text">
        {words.help} {features.isOarlock && words.userHelp}
      </p>
      <div class="controls">
        <label class="check">
          <input type="checkbox" checked={hidesStatus} onChange={() => setHidesStatus(!hidesStatus)} />
          {words.hideStatus}
        </label>
      </div>
      {[error, more.error].map((each) => each !== undefined && <ErrorMessage key={String(each)} error={each} />)}
      <ol class="versions">
        {list.map((version) => (
          <Version key={version.object.metadata.resourceVersion} version={version} write={writes.get(version.object.metadata.resourceVersion)} hidesStatus={hidesStatus} />
        ))}
      </ol>
      {(isLoading || more.isLoading) && <p role="status">{text.connection.connecting}</p>}
      {previous === undefined && !isLoading && !more.isLoading && (
        <p>
          <button type="button" onClick={() => setEarlier(earlier + 1)}>
            {words.earlier}
          </button>
        </p>
      )}
      {(previous === 'compacted' || previous === 'unordered') && <p role="status">{words[previous]}</p>}
    </div>
  );
}

interface VersionProps {
  readonly version: ObjectVersion;
  readonly write: Write | undefined;
  readonly hidesStatus: boolean;
}

/** The time of the latest write that managed fields record, in seconds. */
const timeOf = ({ metadata: { managedFields = [], creationTimestamp = '' } }: KubeObject): string =>
  managedFields.reduce((latest, { time = '' }) => (time > latest ? time : latest), creationTimestamp);

function Version({ version: { object, previous }, write, hidesStatus }: VersionProps) {
  const now = useClock();
  const { features } = useApp();
  const changes = useMemo(() => (typeof previous === 'object' ? fieldChanges(previous, object) : []), [previous]);
  const shown = hidesStatus ? changes.filter(({ path }) => !/^status\b/.test(path)) : changes;
  if (previous === undefined || previous === 'compacted' || previous === 'unordered' || (hidesStatus && shown.length === 0 && changes.length > 0)) return null;
  const time = timeOf(object);
  return (
    <li>
      <h2>
        {words.version(object.metadata.resourceVersion)} <span class="quiet-text">{time} ({text.time.ago(ageOf(time, now))})</span>
      </h2>
      {features.isOarlock && (
        <p>
          {words.user}: {write === undefined ? <span class="quiet-text">{words.notKnown}</span> : write.user}{' '}
          {write !== undefined && <a href={link(['traces'], { a: write.traceId })}>{text.object.tabs.trace}</a>}
        </p>
      )}
      {previous === 'created' ? <p>{words.created}</p> : shown.length === 0 ? <p>{words.noChanges}</p> : <FieldTable changes={shown} />}
    </li>
  );
}

/** The manager of a removed field owned it before: managed fields do not name the manager that removed it. */
function managerText({ manager = '', operation = '' }: ManagedFieldsEntry, isRemoved: boolean): string {
  const owner = text.object.fieldsOwner(manager, operation);
  return isRemoved ? words.formerly(owner) : owner;
}

function FieldTable({ changes }: { readonly changes: readonly FieldChange[] }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={text.object.tabs.changes}>
      <table class="plain-table field-changes">
        <thead>
          <tr>
            <th scope="col">{words.field}</th>
            <th scope="col">{words.before}</th>
            <th scope="col">{words.after}</th>
            <th scope="col">{words.manager}</th>
          </tr>
        </thead>
        <tbody>
          {changes.map(({ path, before, after, manager }) => (
            <tr key={path}>
              <th scope="row">
                <code>{path}</code>
              </th>
              <td class="message">{before === undefined ? <span class="quiet-text">{words.absent}</span> : <del class="diff-removed">{before}</del>}</td>
              <td class="message">{after === undefined ? <span class="quiet-text">{words.absent}</span> : <ins class="diff-added">{after}</ins>}</td>
              <td>{manager && managerText(manager, after === undefined)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
