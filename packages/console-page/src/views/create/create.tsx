import { useEffect, useRef, useState } from 'preact/hooks';
import { errorText } from '../../api/client.ts';
import { discoverResources } from '../../api/resources.ts';
import { useApp } from '../../app/context.ts';
import { objectLink } from '../../app/links.ts';
import { NamespaceSelect } from '../../components/namespace-select.tsx';
import { StatusDot } from '../../components/status-dot.tsx';
import { YamlEditor } from '../../components/yaml-editor.tsx';
import { documentsOf } from '../../components/yaml-text.ts';
import { text } from '../../text/en.ts';
import { applyDocuments, type ApplyResult } from './apply-documents.ts';

const outcomes = {
  created: text.create.created,
  configured: text.create.configured,
  unchanged: text.create.unchanged,
  failed: text.status.error,
} as const;

/** Creates or changes objects from pasted YAML. */
export function View() {
  const { client, namespace: chosen, resources: known, refreshResources } = useApp();
  const [yaml, setYaml] = useState('');
  const [namespace, setNamespace] = useState(chosen === '' ? 'default' : chosen);
  const [force, setForce] = useState(false);
  const [message, setMessage] = useState('');
  const [results, setResults] = useState<readonly ApplyResult[]>([]);
  const [isBusy, setBusy] = useState(false);
  const resultList = useRef<HTMLUListElement>(null);
  // below a long document, the results would be out of sight
  useEffect(() => {
    if (results.length > 0) resultList.current?.scrollIntoView({ block: 'nearest' });
  }, [results]);

  const send = async (dryRun: boolean) => {
    if (isBusy) return;
    setBusy(true);
    setMessage('');
    setResults([]);
    try {
      const documents = documentsOf(yaml);
      if (documents.length === 0) throw new Error(text.create.empty);
      let resources = known;
      const applied = await applyDocuments(documents, {
        client,
        namespace,
        dryRun,
        force,
        resources: async (isUnknown) => {
          if (isUnknown) resources = await discoverResources(client);
          return resources;
        },
      });
      setResults(applied);
      if (resources !== known) refreshResources();
    } catch (error) {
      setMessage(errorText(error));
    } finally {
      setBusy(false);
    }
  };
  return (
    <section class="object-view">
      <header class="view-head">
        <h1>{text.create.title}</h1>
      </header>
      <p>{text.create.help}</p>
      <div class="controls">
        <NamespaceSelect label={text.create.namespace} value={namespace} allowAll={false} onChange={setNamespace} />
        <label class="check">
          <input type="checkbox" checked={force} onChange={({ currentTarget }) => setForce(currentTarget.checked)} />
          <span>{text.edit.force}</span>
        </label>
      </div>
      <YamlEditor label={text.create.editor} value={yaml} onChange={setYaml} onSubmit={() => void send(false)} />
      {message !== '' && (
        <p class="error-message" role="alert">
          {message}
        </p>
      )}
      <div class="actions">
        {/* a disabled button would lose the focus */}
        <button type="button" aria-disabled={isBusy} onClick={() => void send(true)}>
          {text.create.dryRun}
        </button>
        <button type="button" class="primary" aria-disabled={isBusy} onClick={() => void send(false)}>
          {text.create.apply}
        </button>
      </div>
      <ul ref={resultList} class="results" role="status">
        {results.map(({ title, outcome, message: reason, resource, namespace: ns, name }) => (
          <li key={`${title} ${ns}`}>
            <StatusDot health={outcome === 'failed' ? 'error' : 'ok'} label={outcomes[outcome]} />{' '}
            {resource && name !== undefined ? <a href={objectLink(resource, { namespace: ns, name })}>{title}</a> : title} {reason}
          </li>
        ))}
      </ul>
    </section>
  );
}
