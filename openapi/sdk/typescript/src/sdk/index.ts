// What a partner writes by hand around a generated client.
export * from './app.js'
export * from './http.js'
export * from './pages.js'
export * from './tokens.js'
export * from './webhooks.js'
