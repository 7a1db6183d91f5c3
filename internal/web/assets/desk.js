// Keeps the lawyer's desk live: it sends the same forms, and takes from the page that answers what has changed. Without it the page
// loads again by itself.
(() => {
  'use strict'
  const byId = id => document.getElementById(id)
  const desk = () => byId('desk')
  if (!desk()) return
  history.replaceState(null, '', '/desk') // also where a form was refused, or an act answered: what comes next is the desk, and says it once
  const title = document.title
  let ahead = 0 // of this clock, in ms
  let said = ''
  let warned = ''
  let sound = null

  const clock = () => Date.now() - ahead
  const left = text => Math.max(0, Date.parse(text) - clock())
  const minutes = ms => Math.floor(ms / 60000) + ':' + String(Math.floor(ms / 1000) % 60).padStart(2, '0')
  const synchronise = () => { ahead = Date.now() - Date.parse(desk().dataset.now) }

  const beep = () => {
    try {
      sound = sound || new AudioContext()
      for (const at of [0, 0.25]) {
        const tone = sound.createOscillator()
        tone.frequency.value = 880
        tone.connect(sound.destination)
        tone.start(sound.currentTime + at)
        tone.stop(sound.currentTime + at + 0.15)
      }
    } catch { /* no sound here */ }
  }
  const announce = text => {
    if (text !== said) byId('desk-say').textContent = said = text
  }

  let offer = desk().dataset.offer
  const noticed = () => {
    const d = desk().dataset
    announce(d.say)
    if (d.offer && d.offer !== offer) {
      beep()
      byId('desk-offer').scrollIntoView() // on a phone it lies below
      if (window.Notification && Notification.permission === 'granted' && document.hidden) new Notification(d.flash)
    }
    offer = d.offer
  }

  // refocus leads to what stands where the focus was, else to what there is to do now: never to a button that somebody who
  // types has not chosen.
  const refocus = was => {
    const same = was.id && byId(was.id)
    const next = same || desk().querySelector('#desk-offer h2, #desk-case h2, [data-keep] h2') || desk().querySelector('h2')
    next.focus()
    if (same && was.selectionStart !== undefined) same.setSelectionRange(was.selectionStart, was.selectionEnd)
  }

  // merge brings the children of old to those of fresh, and leaves what is being written alone.
  const merge = (old, fresh) => {
    const focused = old.contains(document.activeElement) ? document.activeElement : null
    for (const [name, value] of Object.entries(fresh.dataset)) old.dataset[name] = value
    const known = new Map([...old.children].map(n => [n.id, n]))
    let at = old.firstElementChild
    for (const next of [...fresh.children]) {
      const same = known.get(next.id)
      const kept = same && ('keep' in same.dataset ? same.dataset.status === next.dataset.status : same.outerHTML === next.outerHTML)
      if (same && !kept && 'keep' in same.dataset) {
        for (const field of next.querySelectorAll('textarea')) field.value = byId(field.id).value
      }
      const node = kept ? same : next
      if (node === at) {
        at = at.nextElementSibling
        continue
      }
      old.insertBefore(node, at)
    }
    while (at) {
      const gone = at
      at = at.nextElementSibling
      gone.remove()
    }
    if (focused && !focused.isConnected) refocus(focused)
    synchronise()
    tick()
    noticed()
  }
  const show = async (response, acted) => {
    if (new URL(response.url).pathname !== location.pathname || !(response.headers.get('Content-Type') || '').startsWith('text/html')) {
      location.assign(response.url)
      return
    }
    const fresh = new DOMParser().parseFromString(await response.text(), 'text/html').getElementById('desk')
    if (!fresh || Date.parse(fresh.dataset.now) < Date.parse(desk().dataset.now)) return // overtaken by a later answer
    if (!acted) fresh.querySelector('#desk-alerts').replaceWith(byId('desk-alerts').cloneNode(true)) // what an act was answered stays
    merge(desk(), document.importNode(fresh, true))
  }
  const refresh = async () => {
    try {
      await show(await fetch('/desk'))
    } catch { lost(true) }
  }

  const sending = new WeakSet()
  document.addEventListener('submit', event => {
    const form = event.target
    if (!desk().contains(form) || form.method !== 'post') return
    const by = event.submitter
    const action = (by && by.getAttribute('formaction')) || form.getAttribute('action')
    if (action.endsWith('/note')) return // what is refused comes back as it was typed
    event.preventDefault()
    if (sending.has(form)) return // a button that is disabled would lose the focus
    sending.add(form)
    fetch(action, { method: 'POST', body: new URLSearchParams(new FormData(form, by)) })
      .then(r => show(r, true)).catch(() => lost(true)).finally(() => sending.delete(form))
  })

  const timers = new Map()
  document.addEventListener('input', event => {
    const form = event.target.form
    if (!form || !form.dataset.draft) return
    clearTimeout(timers.get(form))
    timers.set(form, setTimeout(async () => {
      const tell = form.querySelector('[data-draft-said]')
      try {
        const response = await fetch(form.dataset.draft, {
          method: 'PUT',
          headers: { 'Content-Type': 'application/json', 'X-CSRF-Token': desk().dataset.csrf },
          body: JSON.stringify({ note: form.elements.note.value, preview: form.elements.preview.value })
        })
        tell.textContent = response.ok ? desk().dataset.saved : desk().dataset.unsaved
      } catch { tell.textContent = desk().dataset.unsaved }
    }, 1500))
  })

  const tick = () => {
    for (const n of document.querySelectorAll('[data-until]')) n.textContent = minutes(left(n.dataset.until))
    for (const n of document.querySelectorAll('[data-bar]')) n.value = left(n.dataset.bar) / 1000
    for (const n of document.querySelectorAll('[data-since]')) n.textContent = minutes(Math.max(0, clock() - Date.parse(n.dataset.since)))
    const warn = byId('desk-warn')
    if (warn && left(warn.dataset.warnAt) <= 120000) {
      warn.hidden = false
      if (warned !== warn.dataset.warnAt) {
        warned = warn.dataset.warnAt
        announce(desk().dataset.warn)
        beep()
      }
    }
    document.title = desk().dataset.offer && Math.floor(clock() / 1000) % 2 ? desk().dataset.flash : title
  }

  let losing = 0
  const lost = yes => {
    clearTimeout(losing)
    if (yes) losing = setTimeout(() => { byId('desk-lost').hidden = false }, 3000)
    else byId('desk-lost').hidden = true
  }
  const silence = 40000 // ms after which a line on which the server says something every 15 s is dead
  let stream = null
  let heard = 0
  let again = 0
  const follow = () => {
    clearTimeout(again)
    if (stream) stream.close()
    const here = stream = new EventSource('/api/desk/v1/events')
    const alive = () => {
      heard = Date.now()
      lost(false)
    }
    heard = Date.now()
    here.addEventListener('open', alive)
    here.addEventListener('idle', alive)
    here.addEventListener('state', event => {
      alive()
      if (event.lastEventId !== desk().dataset.version) refresh()
    })
    here.addEventListener('signed-out', () => {
      here.close()
      location.reload()
    })
    here.addEventListener('error', () => {
      if (here !== stream) return
      lost(true)
      if (here.readyState !== EventSource.CLOSED) return // it comes back by itself
      again = setTimeout(() => { refresh(); follow() }, 8000)
    })
  }
  const watch = () => {
    if (Date.now() - heard < silence) return
    lost(true)
    follow()
  }
  window.addEventListener('offline', () => lost(true))
  window.addEventListener('online', follow)
  window.addEventListener('pagehide', () => stream.close())
  window.addEventListener('pageshow', event => { if (event.persisted) location.reload() })

  const ask = byId('desk-notify')
  if (window.Notification && Notification.permission === 'default') {
    ask.hidden = false
    ask.querySelector('button').addEventListener('click', async () => {
      await Notification.requestPermission()
      ask.hidden = true
    })
  }
  synchronise()
  tick()
  said = desk().dataset.offer ? '' : desk().dataset.say
  if (desk().dataset.offer) offer = ''
  noticed()
  setInterval(() => { tick(); watch() }, 500)
  follow()
})()
